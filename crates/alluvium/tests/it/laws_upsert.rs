//! UPSERT does what the model says.

use alluvium_testkit::generate::upsert_case;
use alluvium_testkit::oracle::{Answer, Upsert};
use alluvium_testkit::values::Table;
use proptest::prelude::*;

use crate::laws::{Model, agree, config, machine, run};

impl Model for Upsert {
    fn answer(&self, target: Option<&Table>, source: &Table) -> Answer {
        self.apply(target, source)
    }

    fn text(&self, target: &str, source: &str) -> String {
        self.to_sql(target, source)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn upsert_agrees_with_the_model(case in upsert_case(), machine in machine()) {
        run(agree(case, machine))?;
    }
}
