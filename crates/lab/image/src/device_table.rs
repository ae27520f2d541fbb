//! Device tables: names, owners and devices that the host's tree does not have.
//!
//! A line is `NAME TYPE MODE UID GID MAJOR MINOR START INC COUNT`, as mkfs.jffs2 takes it; `-` or nothing
//! stands for a number that does not matter, `#` begins a comment. With a COUNT there are that many
//! devices, NAME followed by START, START + 1 …, whose minor numbers grow by INC.
//!
//! Source: manual of mkfs.jffs2, and images it makes (mtd-utils 2.1.5).

use crate::error::ImageError;
use crate::source::{Content, Source, SourceNode};
use fs_api::FileType;
use std::path::Path;

/// More devices than this from one line are a mistake.
const COUNT_MAX: u32 = 100_000;

/// A line of a device table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: Vec<u8>,
    kind: FileType,
    permissions: u32,
    uid: u32,
    gid: u32,
    device: (u32, u32),
    start: u32,
    increment: u32,
    count: u32,
}

impl Source {
    /// Applies a device table. Files must be there, directories are made if they are not.
    ///
    /// # Errors
    /// [`ImageError`], with the line.
    pub(crate) fn apply_device_table(&mut self, path: &Path) -> Result<(), ImageError> {
        let failed = ImageError::io(path);
        let text = std::fs::read_to_string(path).map_err(&failed)?;
        let modified = path.metadata().map_err(&failed)?;
        let modified = std::os::unix::fs::MetadataExt::mtime(&modified);
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let row = parse(line).and_then(|row| self.apply(&row, modified));
            row.map_err(|reason| ImageError::content(path, format!("line {number}: {reason}")))?;
        }
        Ok(())
    }

    fn apply(&mut self, row: &Row, modified: i64) -> Result<(), String> {
        let shown = || String::from_utf8_lossy(&row.name).into_owned();
        let end = row.name.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        // Names have no slash in front, so that of the root is empty.
        let parent = self.nodes.get(&row.name[..end]);
        if !row.name.is_empty() && parent.is_none_or(|parent| parent.content != Content::Directory)
        {
            return Err(format!("/{} has no parent directory", shown()));
        }
        let made = |content| SourceNode {
            content,
            permissions: row.permissions,
            uid: row.uid,
            gid: row.gid,
            modified,
        };
        let there = self.nodes.get_mut(&row.name);
        match (row.kind, there) {
            // Of what is there a line changes owner and mode, and never the contents.
            (FileType::Regular | FileType::Directory, Some(node)) => {
                let is_directory = node.content == Content::Directory;
                if is_directory != (row.kind == FileType::Directory) {
                    return Err(format!("/{} is of another type", shown()));
                }
                (node.permissions, node.uid, node.gid) = (row.permissions, row.uid, row.gid);
            }
            (FileType::Regular, None) => return Err(format!("/{} is not there", shown())),
            (FileType::Directory, None) => {
                self.nodes.insert(row.name.clone(), made(Content::Directory));
            }
            (kind, _) => {
                for index in 0..row.count.max(1) {
                    let mut name = row.name.clone();
                    if row.count > 0 {
                        name.extend_from_slice((row.start + index).to_string().as_bytes());
                    }
                    let minor = row.device.1 + index * row.increment;
                    let content = Content::Special(kind, (row.device.0, minor));
                    self.nodes.insert(name, made(content));
                }
            }
        }
        Ok(())
    }
}

fn parse(line: &str) -> Result<Row, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, kind, mode, uid, gid, rest @ ..] = &words[..] else {
        return Err("NAME TYPE MODE UID GID are needed".into());
    };
    if rest.len() > 5 {
        return Err(format!("`{}` is one column too many", rest[5]));
    }
    let name = name.strip_prefix('/').ok_or_else(|| format!("`{name}` does not begin with /"))?;
    let name = name.trim_end_matches('/');
    if name.split('/').any(|part| matches!(part, "." | "..") || part.is_empty() && !name.is_empty())
    {
        return Err(format!("/{name} is no path of the image"));
    }
    let kind = match *kind {
        "f" => FileType::Regular,
        "d" => FileType::Directory,
        "c" => FileType::CharacterDevice,
        "b" => FileType::BlockDevice,
        "p" => FileType::Fifo,
        other => return Err(format!("type `{other}` is none of f, d, c, b, p")),
    };
    let permissions = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777);
    let permissions = permissions.ok_or_else(|| format!("mode `{mode}` is not octal"))?;
    let number = |index: usize| match rest.get(index).copied().unwrap_or("-") {
        "-" => Ok(0),
        word => word.parse::<u32>().map_err(|_| format!("`{word}` is no number")),
    };
    let owner = |word: &str| word.parse::<u32>().map_err(|_| format!("`{word}` is no number"));
    let row = Row {
        name: name.as_bytes().to_vec(),
        kind,
        permissions,
        uid: owner(uid)?,
        gid: owner(gid)?,
        device: (number(0)?, number(1)?),
        start: number(2)?,
        increment: number(3)?,
        count: number(4)?,
    };
    // Numbers grow up to the last device of the line, and none may overflow.
    let last = u64::from(row.count) * u64::from(row.increment.max(1));
    if row.count > COUNT_MAX
        || last + u64::from(row.device.1) > u64::from(u32::MAX)
        || last + u64::from(row.start) > u64::from(u32::MAX)
    {
        return Err(format!("{} devices are too many", row.count));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_read_or_refused() {
        let row = parse("/dev/tty c 666 10 20 5 3 2 1 5").expect("a line of the manual");
        assert_eq!((row.name.as_slice(), row.permissions), (&b"dev/tty"[..], 0o666));
        assert_eq!((row.device, row.start, row.increment, row.count), ((5, 3), 2, 1, 5));
        assert_eq!(parse("/dev/pipe p 600 1 2 - - - - -").expect("no numbers").count, 0);
        for (line, expected) in [
            ("/x z 644 0 0", "none of f, d"),
            ("x c 644 0 0", "begin with /"),
            ("/a/../b d 755 0 0", "no path"),
            ("/x c 844 0 0", "not octal"),
            ("/x c 644 0", "are needed"),
            ("/x c 644 0 0 1 2 3 4 5 6", "too many"),
            ("/x c 644 0 0 1 2 0 1 4294967295", "too many"),
            ("/x c 644 0 root", "no number"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
