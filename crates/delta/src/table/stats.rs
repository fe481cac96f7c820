//! File statistics.
