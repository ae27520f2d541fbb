//! The file systems that the kernel of the emulated machine mounts. The table of all is not here: this program
//! runs in that machine, and simulates nothing.

/// Names, and whether they lie on a volume of UBI.
const IN_KERNEL: [(&str, bool); 2] = [("jffs2", false), ("ubifs", true)];

/// The file system lies on a volume of UBI, which is attached before its mount.
pub(crate) fn is_over_ubi(file_system: &str) -> bool {
    IN_KERNEL.contains(&(file_system, true))
}

/// Refuses a file system that the kernel has not.
pub(crate) fn check(file_system: &str) -> Result<(), String> {
    if IN_KERNEL.iter().any(|(name, _)| *name == file_system) {
        return Ok(());
    }
    // YAFFS2 is listed by its name: its code was never part of Linux.
    if file_system == "yaffs2" {
        return Err("no distribution kernel has YAFFS2: JFFS2 and UBIFS are carried out in a kernel; leave \
                    --in kernel out for the simulation"
            .into());
    }
    let known = IN_KERNEL.map(|(name, _)| name).join(" and ");
    Err(format!("{file_system} is not carried out in a kernel: {known} are"))
}

/// Refuses a place where the file system does not lie.
pub(crate) fn check_source(file_system: &str, source: &str) -> Result<(), String> {
    let is_volume = source.starts_with("ubi0:");
    if is_volume == is_over_ubi(file_system) && (is_volume || source == "mtd0") {
        return Ok(());
    }
    let right = if is_over_ubi(file_system) { "ubi0:NAME" } else { "mtd0" };
    Err(format!(
        "`{source}` cannot be mounted as {file_system}: write `mount {file_system} {right} -`"
    ))
}
