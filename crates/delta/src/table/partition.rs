//! Partition values as the log spells them.
