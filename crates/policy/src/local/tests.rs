//! Tests with tables of mounts of real machines.

use proptest::prelude::*;

use super::*;

/// Checks which mount points are local, and the reason why each of `left_out` is not.
#[track_caller]
fn check(table: &str, local: &[&str], left_out: &[(&str, &str)]) {
    let standings = decide(&parse_mounts(table.as_bytes()), |_| true, &[]);
    let found: Vec<String> = standings
        .iter()
        .filter(|one| one.standing == Standing::Local)
        .map(|one| model::escaped(&one.point))
        .collect();
    assert_eq!(found, local);
    for (point, reason) in left_out {
        let one = standings
            .iter()
            .find(|one| one.point == point.as_bytes() && one.standing != Standing::Local);
        let Some(Standing::LeftOut(found)) = one.map(|one| &one.standing) else {
            panic!("{point} is not left out: {standings:?}");
        };
        assert_eq!(found.to_string(), *reason, "{point}");
    }
}

const DEBIAN: &str = "\
22 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
23 28 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
24 28 0:5 / /dev rw,nosuid,relatime shared:2 - devtmpfs udev rw,size=8163040k,nr_inodes=2040760
26 28 0:24 / /run rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs rw,size=1639828k,mode=755
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/mapper/vg0-root rw,errors=remount-ro
29 22 0:6 / /sys/kernel/security rw,nosuid shared:8 - securityfs securityfs rw
32 22 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw
92 28 254:3 / /home rw,relatime shared:45 - xfs /dev/mapper/vg0-home rw,attr2,inode64,noquota
95 28 8:2 / /boot rw,relatime shared:47 - ext4 /dev/sda2 rw
98 95 8:1 / /boot/efi rw,relatime shared:49 - vfat /dev/sda1 rw,fmask=0077,dmask=0077
101 28 7:0 / /snap/core20/2015 ro,nodev,relatime shared:51 - squashfs /dev/loop0 ro,errors=continue
104 28 11:0 / /media/cdrom0 ro,nosuid,nodev,noexec,relatime shared:60 - iso9660 /dev/sr0 ro
110 28 0:49 / /srv/share rw,relatime shared:70 - nfs4 nas:/export rw,vers=4.2,rsize=1048576
113 28 0:52 / /mnt/win rw,relatime shared:71 - cifs //nas/win rw,vers=3.1.1
116 92 0:55 / /home/ann/remote rw,nosuid,nodev shared:72 - fuse.sshfs ann@host: rw,user_id=1000
119 28 8:17 / /mnt/usb\\040disk rw,relatime shared:73 - fuseblk /dev/sdb1 rw,user_id=0
122 28 254:3 /ann/www /var/www rw,relatime shared:45 - xfs /dev/mapper/vg0-home rw,attr2,inode64
125 28 254:1 / /chroot rw,relatime shared:1 - ext4 /dev/mapper/vg0-root rw
128 28 0:60 / /var/lib/docker/overlay2/a/merged rw shared:80 - overlay overlay rw
";

#[test]
fn a_machine_with_many_kinds_of_mounts() {
    check(
        DEBIAN,
        &["/", "/boot", "/boot/efi", "/home", "/mnt/usb disk"],
        &[
            ("/proc", "it has no disk"),
            ("/run", "it is in memory"),
            ("/dev", "it is in memory"),
            ("/snap/core20/2015", "it is a medium or an image that is only read"),
            ("/media/cdrom0", "it is a medium or an image that is only read"),
            ("/srv/share", "it is on a network"),
            ("/mnt/win", "it is on a network"),
            ("/home/ann/remote", "a program provides it (FUSE)"),
            ("/var/www", "its files are also at /home"),
            ("/chroot", "its files are also at /"),
            ("/var/lib/docker/overlay2/a/merged", "it is an overlay of other directories"),
        ],
    );
}

#[test]
fn a_container_has_its_overlay_and_its_volumes() {
    let table = "\
560 481 0:44 / / rw,relatime master:200 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
561 560 0:47 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
562 560 0:48 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
570 560 8:3 /var/lib/docker/volumes/data/_data /data rw,relatime - ext4 /dev/sda3 rw
571 560 8:3 /var/lib/docker/containers/c/hosts /etc/hosts rw,relatime - ext4 /dev/sda3 rw
";
    let mounts = parse_mounts(table.as_bytes());
    let standings = decide(&mounts, |point| point != b"/etc/hosts", &[]);
    let local: Vec<&[u8]> = standings
        .iter()
        .filter(|one| one.standing == Standing::Local)
        .map(|one| &one.point[..])
        .collect();
    assert_eq!(local, [&b"/"[..], b"/data"]);
    let hosts = standings.iter().find(|one| one.point == b"/etc/hosts").expect("is listed");
    assert_eq!(hosts.standing, Standing::LeftOut(Reason::File));
}

#[test]
fn each_subvolume_of_btrfs_counts_once() {
    check(
        "\
30 1 0:26 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw,ssd,subvolid=256,subvol=/@
61 30 0:26 /@home /home rw,relatime shared:30 - btrfs /dev/sda2 rw,ssd,subvolid=257,subvol=/@home
64 30 0:26 / /mnt/top rw,relatime shared:33 - btrfs /dev/sda2 rw,ssd,subvolid=5,subvol=/
67 30 0:26 /@home/ann /srv/ann rw shared:30 - btrfs /dev/sda2 rw,subvol=/@home
70 30 0:26 /@home /export rw,relatime shared:30 - btrfs /dev/sda2 rw,ssd,subvolid=257,subvol=/@home
73 30 0:31 /@ /other rw,relatime shared:40 - btrfs /dev/sdb rw,subvolid=256,subvol=/@
",
        &["/", "/home", "/mnt/top", "/other"],
        &[("/srv/ann", "its files are also at /home"), ("/export", "its files are also at /home")],
    );
}

#[test]
fn zfs_has_no_device_number_of_a_disk() {
    check(
        "\
30 1 0:26 / / rw,relatime shared:1 - zfs rpool/ROOT/debian rw,xattr,posixacl
40 30 0:38 / /tank rw,relatime shared:20 - zfs tank rw,xattr,noacl
41 40 0:39 / /tank/media rw,relatime shared:21 - zfs tank/media rw,xattr,noacl
42 30 252:0 / /swapdisk rw - ext4 /dev/zram0 rw
",
        &["/", "/tank", "/tank/media"],
        &[("/swapdisk", "it is in memory")],
    );
}

#[test]
fn a_mount_that_is_covered_is_not_read_twice() {
    check(
        "\
30 1 8:1 / / rw - ext4 /dev/sda1 rw
31 30 8:2 / /data rw - ext4 /dev/sda2 rw
32 31 8:3 / /data rw - xfs /dev/sda3 rw
33 30 8:4 / /srv/deep rw - ext4 /dev/sda4 rw
34 30 8:5 / /srv rw - ext4 /dev/sda5 rw
35 32 8:6 / /data/sub rw - ext4 /dev/sda6 rw
",
        &["/", "/data", "/data/sub", "/srv"],
        &[
            ("/data", "another file system is mounted over it"),
            ("/srv/deep", "another file system is mounted over it"),
        ],
    );
}

#[test]
fn the_list_of_paths_leaves_mount_points_out() {
    let mounts = parse_mounts(DEBIAN.as_bytes());
    let standings = decide(&mounts, |_| true, &[b"/home".to_vec()]);
    let home = standings.iter().find(|one| one.point == b"/home").expect("is listed");
    assert_eq!(home.standing, Standing::LeftOut(Reason::Excluded));
    // A bind mount of a part of it is left out with it.
    let www = standings.iter().find(|one| one.point == b"/var/www").expect("is listed");
    assert_eq!(www.standing, Standing::LeftOut(Reason::Bind(b"/home".to_vec())));
}

/// Regression: what follows a backslash was counted before it was known to be digits.
#[test]
fn a_backslash_without_digits_stays() {
    let table = b"30 1 8:1 / /odd\\x# rw - ext4 /dev/sda1 rw\n31 1 8:2 / /no\\777 rw - xfs d rw\n";
    let points: Vec<Vec<u8>> = parse_mounts(table).into_iter().map(|mount| mount.point).collect();
    assert_eq!(points, [b"/odd\\x#".to_vec(), b"/no\\777".to_vec()]);
}

proptest! {
    /// Damaged tables are read as far as they make sense, and never lead to a panic.
    #[test]
    fn any_table_is_decided(
        cuts in proptest::collection::vec((0..DEBIAN.len(), any::<u8>()), 0..20),
    ) {
        let mut table = DEBIAN.as_bytes().to_vec();
        for (at, byte) in cuts {
            table[at] = byte;
        }
        let mounts = parse_mounts(&table);
        let standings = decide(&mounts, |_| true, &[]);
        prop_assert_eq!(standings.len(), mounts.len());
    }

    /// No part of a file system is taken twice.
    #[test]
    fn no_files_are_taken_twice(
        roots in proptest::collection::vec(("(/[ab]){0,3}", 0_u32..2), 1..8),
    ) {
        let mounts: Vec<Mount> = (10..).zip(&roots).map(|(id, (root, minor))| Mount {
            id,
            parent: 1,
            device: (8, *minor),
            root: if root.is_empty() { b"/".to_vec() } else { root.clone().into_bytes() },
            point: format!("/at{id}").into_bytes(),
            kind: "ext4".to_owned(),
            source: b"/dev/sda".to_vec(),
            options: b"rw".to_vec(),
        }).collect();
        let local: Vec<Vec<u8>> = decide(&mounts, |_| true, &[])
            .into_iter()
            .filter(|one| one.standing == Standing::Local)
            .map(|one| one.point)
            .collect();
        let taken: Vec<&Mount> =
            mounts.iter().filter(|mount| local.contains(&mount.point)).collect();
        for (index, one) in taken.iter().enumerate() {
            for other in &taken[index + 1..] {
                let is_shared = one.point != other.point && one.device == other.device
                    && (is_at_or_below(&one.root, &other.root)
                        || is_at_or_below(&other.root, &one.root));
                prop_assert!(!is_shared, "{one:?} {other:?}");
            }
        }
    }
}
