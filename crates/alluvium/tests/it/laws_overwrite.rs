//! MERGE OVERWRITE does what the model says.

use alluvium_testkit::generate::{overwrite_keys_case, overwrite_window_case};
use alluvium_testkit::oracle::{Answer, Counts, Overwrite};
use alluvium_testkit::values::Table;
use proptest::prelude::*;

use crate::laws::{Model, agree, config, machine, run};

impl Model for Overwrite {
    fn answer(&self, target: Option<&Table>, source: &Table) -> Answer {
        self.apply(target, source)
    }

    fn text(&self, target: &str, source: &str) -> String {
        self.to_sql(target, source)
    }

    /// How marked rows are counted is left open.
    fn compared(&self, counts: Counts) -> Counts {
        Counts {
            inserted: counts.inserted,
            deleted: counts.deleted,
            source: counts.source,
            ..Counts::default()
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn overwrite_by_keys_agrees_with_the_model(case in overwrite_keys_case(), machine in machine()) {
        run(agree(case, machine))?;
    }

    #[test]
    fn overwrite_of_windows_agrees_with_the_model(case in overwrite_window_case(), machine in machine()) {
        run(agree(case, machine))?;
    }
}
