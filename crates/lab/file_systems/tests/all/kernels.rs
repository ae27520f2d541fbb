//! Profiles by kernel.

use file_systems::{KINDS, find_kind};
use mount::MountError;

#[test]
fn a_kernel_has_the_newest_profile_that_is_not_newer() {
    let of = |kind: &str, kernel: &str| {
        let found = find_kind(kind).expect("known").profile_of_kernel(kernel).expect("modelled");
        (found.name, found.kernels, found.is_exact)
    };
    let before = "2.6.35 to before 6.1".to_owned();
    assert_eq!(of("ubifs", "4.9"), ("linux-2.6.35", before, false));
    assert_eq!(of("ubifs", "6.12.9"), ("linux-6.12", "6.12".into(), true));
    assert_eq!(of("yaffs2", "6.12"), ("linux-6.1", "6.1 to 6.12".into(), false));
    for kind in KINDS {
        for (_, name) in kind.kernel_profiles() {
            let kernel = name.trim_start_matches("linux-");
            let found = kind.profile_of_kernel(kernel).expect("a profile of its own");
            assert_eq!((found.name, found.is_exact), (name, true), "{}", kind.name);
        }
    }
}

#[test]
fn a_kernel_that_is_not_modelled_is_refused_with_the_nearest_one() {
    for (kernel, nearest) in [("7.0", "6.12"), ("6.13", "6.12"), ("2.6.28", "2.6.29")] {
        for kind in KINDS {
            let error = kind.profile_of_kernel(kernel).expect_err("not modelled");
            assert!(matches!(error, MountError::Kernel { .. }), "{error}");
            assert!(error.to_string().ends_with(&format!("kernel = \"{nearest}\"")), "{error}");
        }
    }
}
