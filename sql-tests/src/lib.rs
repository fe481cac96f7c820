//! SQL tests of Alluvium: statements and their answers as text, run on several engines. The runner is the test target
//! `sql_tests` in `runner/`; how to run and write tests is in this package's README.
