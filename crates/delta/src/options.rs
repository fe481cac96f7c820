//! Settings of a session that say how tables are made.

use std::collections::HashMap;

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;

const ENABLE: &str = "delta.enableDeletionVectors";

extensions_options! {
    /// Settings of a session: `SET alluvium.<name> = ..`.
    pub struct LoadOptions {
        /// Whether tables that statements create have deletion vectors, unless `TBLPROPERTIES` say otherwise: loads then
        /// name the rows that are gone instead of writing their files again. Readers must know Delta's reader version 3.
        pub deletion_vectors: bool, default = true
    }
}

impl ConfigExtension for LoadOptions {
    const PREFIX: &'static str = "alluvium";
}

impl LoadOptions {
    /// Makes the settings known to a session that does not know them yet.
    pub fn register(options: &mut ConfigOptions) {
        if options.extensions.get::<Self>().is_none() {
            options.extensions.insert(Self::default());
        }
    }

    /// The properties of a table that is created with those that the statement gives.
    pub fn table_properties(options: &ConfigOptions, mut given: HashMap<String, String>) -> HashMap<String, String> {
        let wanted = options
            .extensions
            .get::<Self>()
            .map_or_else(|| Self::default().deletion_vectors, |own| own.deletion_vectors);
        if wanted {
            given.entry(ENABLE.to_owned()).or_insert_with(|| "true".to_owned());
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_goes_before_the_setting() {
        let mut options = ConfigOptions::new();
        let made = |options: &ConfigOptions, given: &[(&str, &str)]| {
            let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            LoadOptions::table_properties(options, given.collect()).remove(ENABLE)
        };
        assert_eq!(made(&options, &[]).as_deref(), Some("true"));
        LoadOptions::register(&mut options);
        assert_eq!(made(&options, &[(ENABLE, "false")]).as_deref(), Some("false"));
        options.set("alluvium.deletion_vectors", "false").unwrap();
        LoadOptions::register(&mut options);
        assert_eq!(made(&options, &[]), None);
        assert_eq!(made(&options, &[(ENABLE, "true")]).as_deref(), Some("true"));
    }
}
