//! How many cpus' worth of time the cgroups of this process grant. Such a quota does not show in the affinity
//! mask, where it looks like free cores.
//!
//! A process is in one group of each hierarchy. Every group from there up to the root of the mount may have a
//! limit and the tightest counts. Version 2 keeps it in `cpu.max`, version 1 in `cpu.cfs_quota_us` and
//! `cpu.cfs_period_us`; a machine may have both mounted.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::Host;

impl Host {
    /// The tightest quota over this process, in cpus; `None` without one. It is shared by all processes of
    /// the group, and may be a fraction. Files that are absent or make no sense set no limit.
    #[must_use]
    pub fn cgroup_cpus(&self) -> Option<f64> {
        let groups = fs::read_to_string(self.root.join("proc/self/cgroup")).ok()?;
        let mounts = fs::read_to_string(self.root.join("proc/self/mountinfo")).ok()?;
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let quotas = groups.lines().filter_map(Membership::parse).flat_map(|membership| {
            let mounts = mounts.iter().filter(move |mount| mount.version == membership.version);
            mounts.filter_map(move |mount| self.tightest(mount, membership.group))
        });
        quotas.min_by(f64::total_cmp)
    }

    /// The tightest quota from `group` up to where the hierarchy is mounted.
    fn tightest(&self, mount: &Mount, group: &Path) -> Option<f64> {
        let top = self.root.join(relative(&mount.point));
        let below = group.strip_prefix(&mount.root).ok().filter(|below| is_plain(below));
        let bottom = below.map_or(top.clone(), |below| top.join(below));
        let folders = bottom.ancestors().take_while(|folder| folder.starts_with(&top));
        folders.filter_map(|folder| mount.version.quota(folder)).min_by(f64::total_cmp)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The limit that a group has of its own.
    fn quota(self, folder: &Path) -> Option<f64> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        match self {
            Version::Two => {
                let text = read("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                ratio(quota, period)
            }
            Version::One => ratio(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
        }
    }
}

/// Microseconds by microseconds. What means "no limit", `max` or -1, is `None`, and so is nonsense.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    (0 < quota && 0 < period).then(|| quota as f64 / period as f64)
}

/// The group that this process is in, of one hierarchy that may hold the cpu controller.
#[derive(Debug, PartialEq, Eq)]
struct Membership<'a> {
    version: Version,
    group: &'a Path,
}

impl Membership<'_> {
    /// A line of `/proc/self/cgroup`: number, controllers (none for version 2), path.
    fn parse(line: &str) -> Option<Membership<'_>> {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, group) = (fields.next()?, fields.next()?, Path::new(fields.next()?));
        match controllers {
            "" if number == "0" => Some(Membership { version: Version::Two, group }),
            list if has_cpu(list) => Some(Membership { version: Version::One, group }),
            _ => None,
        }
    }
}

/// Where a hierarchy that may hold the cpu controller is mounted, and which group stands at its top.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line of `/proc/self/mountinfo`: four fields, mount point, options, optional fields up to a dash,
    /// then file system, source and its options. The fourth field is the root of the mount.
    fn parse(line: &str) -> Option<Mount> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (unescaped(front.next()?), unescaped(front.next()?));
        let mut back = back.split(' ');
        let (file_system, options) = (back.next()?, back.nth(1)?);
        let version = match file_system {
            "cgroup2" => Version::Two,
            "cgroup" if has_cpu(options) => Version::One,
            _ => return None,
        };
        Some(Mount { version, root, point })
    }
}

fn has_cpu(list: &str) -> bool {
    list.split(',').any(|name| name == "cpu")
}

/// The kernel writes a space, a tab, a line end and a backslash in paths as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let text = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    PathBuf::from(text.replace("\\134", "\\"))
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Whether a path goes down only. One with `..`, as seen from a namespace inside, names a group that cannot
/// be reached by this mount.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of these files.
    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        let host = Host::at(root.path());
        (root, host)
    }

    fn quota(files: &[(&str, &str)]) -> Option<f64> {
        let (_root, host) = host(files);
        host.cgroup_cpus()
    }

    const TWO: (&str, &str) = (
        "proc/self/mountinfo",
        "22 1 8:1 / / rw shared:1 - ext4 /dev/vda rw\n\
         30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const ONE: (&str, &str) = (
        "proc/self/mountinfo",
        "31 23 0:29 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
         32 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
         33 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
    );
    const IN_JOB: (&str, &str) = ("proc/self/cgroup", "0::/slice/job\n");
    const IN_JOB_ONE: (&str, &str) = (
        "proc/self/cgroup",
        "4:memory:/elsewhere\n3:cpu,cpuacct:/slice/job\n2:cpuset:/none\n1:name=systemd:/\n",
    );

    #[test]
    fn version_2_takes_the_tightest_up_the_tree() {
        let outer = ("sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
        assert_eq!(quota(&[TWO, IN_JOB, outer]), Some(2.0));
        assert_eq!(
            quota(&[TWO, IN_JOB, outer, ("sys/fs/cgroup/slice/job/cpu.max", "50000 100000\n")]),
            Some(0.5)
        );
        assert_eq!(
            quota(&[TWO, IN_JOB, outer, ("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n")]),
            Some(2.0)
        );
        assert_eq!(quota(&[TWO, IN_JOB, outer, ("sys/fs/cgroup/cpu.max", "10000 100000")]), Some(0.1));
    }

    #[test]
    fn limits_of_other_groups_do_not_count() {
        for path in
            ["sys/fs/cgroup/slice/other/cpu.max", "sys/fs/cgroup/slice/job/child/cpu.max", "sys/fs/cpu.max"]
        {
            assert_eq!(quota(&[TWO, IN_JOB, (path, "50000 100000\n")]), None, "{path}");
        }
    }

    #[test]
    fn version_1_divides_quota_by_period() {
        let period = ("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_period_us", "50000\n");
        let own = |text| ("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_quota_us", text);
        let outer = [
            ("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us", "300000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota(&[ONE, IN_JOB_ONE, period, own("75000\n")]), Some(1.5));
        assert_eq!(quota(&[ONE, IN_JOB_ONE, period, own("-1\n")]), None);
        assert_eq!(quota(&[ONE, IN_JOB_ONE, period, own("-1\n"), outer[0], outer[1]]), Some(3.0));
        assert_eq!(quota(&[ONE, IN_JOB_ONE, period, own("75000\n"), outer[0], outer[1]]), Some(1.5));
    }

    #[test]
    fn both_versions_together_give_the_tighter() {
        let mounts = format!("{}{}", ONE.1, TWO.1.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
        let groups = format!("{}0::/two\n", IN_JOB_ONE.1);
        let files = [
            ("proc/self/mountinfo", mounts.as_str()),
            ("proc/self/cgroup", groups.as_str()),
            ("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us", "300000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/unified/two/cpu.max", "250000 100000\n"),
        ];
        assert_eq!(quota(&files), Some(2.5));
        assert_eq!(quota(&files[..4]), Some(3.0));
    }

    #[test]
    fn containers_see_their_group_at_the_mount() {
        let inside = ("proc/self/mountinfo", "30 23 0:26 /box/a /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
        let limit = ("sys/fs/cgroup/cpu.max", "100000 100000\n");
        for group in ["0::/box/a\n", "0::/\n", "0::/../b\n", "0::/box/b\n"] {
            assert_eq!(quota(&[inside, ("proc/self/cgroup", group), limit]), Some(1.0), "{group}");
        }
        let beside = ("sys/fs/b/cpu.max", "10000 100000\n");
        assert_eq!(quota(&[TWO, ("proc/self/cgroup", "0::/../b\n"), limit, beside]), Some(1.0));
        let below = ("sys/fs/cgroup/child/cpu.max", "60000 100000\n");
        assert_eq!(quota(&[inside, ("proc/self/cgroup", "0::/box/a/child\n"), limit, below]), Some(0.6));
    }

    #[test]
    fn nonsense_sets_no_limit() {
        let texts =
            ["", "max", "0 100000", "100000 0", "-5 100000", "1e5 100000", "100000", "NaN inf", "\u{0}"];
        for text in texts {
            assert_eq!(quota(&[TWO, IN_JOB, ("sys/fs/cgroup/slice/job/cpu.max", text)]), None, "{text:?}");
        }
        let limit = ("sys/fs/cgroup/slice/job/cpu.max", "100000 100000\n");
        for groups in ["", "0", "0:", "x::/slice/job", "\n\n", "0::"] {
            let found = quota(&[TWO, ("proc/self/cgroup", groups), limit]);
            assert_eq!(found, None, "{groups:?}");
        }
        for mounts in ["", " - ", "- cgroup2", "1 2 3 - cgroup2 cgroup2 rw", "1 2 3 / / rw - cgroup2"] {
            assert_eq!(quota(&[("proc/self/mountinfo", mounts), IN_JOB, limit]), None, "{mounts:?}");
        }
        assert_eq!(quota(&[]), None);
    }

    #[test]
    fn paths_with_spaces_are_found() {
        let mounts = ("proc/self/mountinfo", "30 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
        let files =
            [mounts, ("proc/self/cgroup", "0::/a b:c\n"), ("my groups/a b:c/cpu.max", "30000 10000\n")];
        assert_eq!(quota(&files), Some(3.0));
    }
}
