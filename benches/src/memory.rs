//! Peak memory of this process, as the operating system counts it.
//!
//! The high-water mark can be reset, but what an allocator keeps after one load is still counted in the next. So the
//! report gives each figure a process of its own.

use std::fs;

/// Starts the high-water mark anew at what is resident now, where the system can do that.
pub fn reset_peak() {
    // Linux: "5" resets the peak. Elsewhere the file is missing, and so is the figure that would need it.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most that was resident since the start or the last reset, in bytes. None where the system does not tell.
pub fn peak() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_the_status() {
        let status = "Name:\treport\nVmPeak:\t  9 kB\nVmHWM:\t   2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(field(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(field("Name:\treport\n", "VmHWM:"), None);
    }
}
