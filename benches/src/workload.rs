//! The loads that are measured. What their sources hold is in [`crate::source`].

/// What a load does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A match updates the stored row.
    Upsert,
    /// A match leaves the stored row alone.
    InsertOnly,
    /// The rows of the last days are replaced, whatever their keys.
    Window,
    /// The rows of the source's keys are replaced by the newest row of each.
    Newest,
    /// A history takes an extract of everything, in which little has changed.
    HistoryOfExtract,
    /// A history takes the rows that have changed.
    HistoryOfChanges,
}

/// The table that is loaded into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The base table as the options want it.
    Given,
    /// The base table, sorted over its files and not partitioned.
    Sorted,
    /// The base table, partitioned by day.
    ByDay,
    /// Half as many keys, some of them with a closed version.
    History,
    /// A twentieth of the rows and two hundred columns.
    Wide,
}

impl Base {
    /// How many keys it stores where the base table has `total` rows.
    pub fn keys(self, total: u64) -> u64 {
        match self {
            Self::Given | Self::Sorted | Self::ByDay => total,
            Self::History => total / 2,
            Self::Wide => total / 20,
        }
    }
}

/// Where the keys of a source lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// All over the table.
    Scattered,
    /// Known keys in the last twentieth of the table, new ones beyond its end.
    Recent,
}

/// How many rows a source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// One in so many keys of the table.
    OneIn(u64),
    /// So many rows, whatever the table.
    Rows(u64),
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Short name.
    pub name: &'static str,
    /// What it stands for.
    pub title: &'static str,
    /// What it does.
    pub load: Load,
    /// Into which table.
    pub base: Base,
    /// Keys of a source. A window and an extract have a size of their own.
    pub size: Size,
    /// How many in ten of them are known to the table.
    pub known_in_ten: u64,
    /// Where they lie.
    pub place: Place,
    /// How many sources come one after the other.
    pub sources: u64,
}

const UPSERT: Workload = Workload {
    name: "w1",
    title: "upsert, 1 % scattered",
    load: Load::Upsert,
    base: Base::Given,
    size: Size::OneIn(100),
    known_in_ten: 5,
    place: Place::Scattered,
    sources: 1,
};

const INSERT_ONLY: Workload = Workload {
    name: "w4",
    title: "insert only, 5 % replayed",
    load: Load::InsertOnly,
    size: Size::OneIn(20),
    known_in_ten: 9,
    ..UPSERT
};

const WINDOW: Workload = Workload {
    name: "w6s",
    title: "replace 7 of 90 days, sorted",
    load: Load::Window,
    base: Base::Sorted,
    ..UPSERT
};

/// Every workload, by name.
pub const WORKLOADS: [Workload; 14] = [
    UPSERT,
    Workload {
        name: "w2",
        title: "upsert, 1 % recent",
        place: Place::Recent,
        ..UPSERT
    },
    Workload {
        name: "w3",
        title: "upsert, 50 % scattered",
        size: Size::OneIn(2),
        ..UPSERT
    },
    INSERT_ONLY,
    Workload {
        name: "w4c",
        title: "insert only, 5 % recent replayed",
        place: Place::Recent,
        ..INSERT_ONLY
    },
    Workload {
        name: "w5",
        title: "insert only, 5 % all new",
        known_in_ten: 0,
        place: Place::Recent,
        ..INSERT_ONLY
    },
    WINDOW,
    Workload {
        name: "w6p",
        title: "replace 7 of 90 days, partitioned",
        base: Base::ByDay,
        ..WINDOW
    },
    Workload {
        name: "w7",
        title: "history, extract of all",
        load: Load::HistoryOfExtract,
        base: Base::History,
        ..UPSERT
    },
    Workload {
        name: "w8",
        title: "history, 1 % changes",
        load: Load::HistoryOfChanges,
        base: Base::History,
        known_in_ten: 8,
        ..UPSERT
    },
    Workload {
        name: "w9",
        title: "newest of three, 1 % scattered",
        load: Load::Newest,
        ..UPSERT
    },
    Workload {
        name: "w10",
        title: "upsert, 100 rows",
        size: Size::Rows(100),
        ..UPSERT
    },
    Workload {
        name: "w11",
        title: "upsert, 50 times 1,000 rows",
        size: Size::Rows(1_000),
        place: Place::Recent,
        sources: 50,
        ..UPSERT
    },
    Workload {
        name: "w12",
        title: "upsert, 1 % of 200 columns",
        base: Base::Wide,
        known_in_ten: 10,
        ..UPSERT
    },
];

impl Workload {
    /// The workload of this name.
    pub fn named(name: &str) -> Option<Self> {
        WORKLOADS.into_iter().find(|w| w.name == name)
    }
}
