//! A short campaign against each target, with the memory that the target allocates.
//!
//! `cargo test -p fuzz page` runs one target. `HOLDFAST_CASES` and `HOLDFAST_FUZZ_SECS` make it
//! longer; see CONTRIBUTING.md.

use fuzz::{TARGETS, exercise};

/// Runs the campaign against the target `name`. Returns the number of its cases.
#[track_caller]
fn check(name: &str) -> u64 {
    let target = TARGETS.iter().find(|target| target.name == name).expect("it is in the list");
    exercise(name, &(target.seeds)(), &|input| {
        let used = allocation_counter::measure(|| (target.check)(input));
        assert!(
            used.bytes_max <= target.allocation_bytes_max,
            "{name} allocated {} bytes",
            used.bytes_max
        );
    })
}

/// Makes a test of each target, and a list of them.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name);
                println!("{name}: {} cases", check(name));
            }
        )+

        #[test]
        fn every_target_has_a_test() {
            let tested = [$(stringify!($name)),+];
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), tested);
        }
    };
}

tests!(
    name,
    text,
    page,
    catalog_copy,
    pack_header,
    pack_footer,
    quantum,
    seal,
    volume_block,
    volume_index,
    file_volume,
    stub,
    hsm_settings,
    hsm_request,
    pattern,
    statements,
    policy_set,
    setting,
    schedule,
    digest_rows,
    grants,
    token,
    greeting,
    plain_connection,
    baseline,
    index_run,
    index_manifest,
    nbd_uri,
    nbd_server,
    lvm_disk,
    lvm_text,
    thin_delta,
    scsi_answer,
    address,
    server_toml,
    client_toml,
    tape_toml,
    key_file,
    mount_table,
    admin_command,
    select_statement,
);
