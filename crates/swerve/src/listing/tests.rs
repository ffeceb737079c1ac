use std::fs;
use std::os::unix::ffi::OsStringExt;

use tempfile::TempDir;

use super::*;
use crate::platform::Links;

/// The page of a directory of the tree, as it would be sent: in parts.
fn parts(tree: &Tree, path: &str, most: usize) -> Vec<String> {
    let found = tree.look(Path::new(path), Wait::Anything).unwrap();
    let mut page = Page::new(found, path.into(), Wait::Anything);
    page.most = most;
    let mut parts = Vec::new();
    loop {
        let mut part = page.next(tree).unwrap();
        assert!(part.rows.len() <= ROWS);
        if let Some((details, seen)) = page.details(&part) {
            details.look(tree);
            part.fill_in(std::mem::take(&mut seen.lock().unwrap()));
        }
        parts.push(page.render(&part));
        if part.is_last() {
            return parts;
        }
    }
}

fn tree(files: &[&[u8]], directories: &[&str]) -> (TempDir, Tree) {
    let dir = TempDir::new().unwrap();
    for name in files {
        fs::write(dir.path().join(std::ffi::OsString::from_vec(name.to_vec())), "abc").unwrap();
    }
    for name in directories {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let tree = Tree::new(dir.path(), false, Links::Inside).unwrap();
    (dir, tree)
}

fn page(files: &[&[u8]], directories: &[&str]) -> String {
    let (_dir, tree) = tree(files, directories);
    parts(&tree, "", MOST_ROWS).concat()
}

#[test]
fn hostile_names_stay_names() {
    let page = page(
        &[
            b"<script>alert('1')<%script>",
            b"\" onmouseover=\"x",
            b"javascript:alert(1)",
            b"a&amp;b",
            b"caf\xe9",
        ],
        &[],
    );
    assert!(!page.contains("<script"));
    assert!(!page.contains("\" onmouseover"));
    assert!(!page.contains("href=\"javascript:"));
    assert!(page.contains("href=\"javascript%3Aalert%281%29\""));
    assert!(page.contains("a&amp;amp;b"));
    assert!(page.contains("href=\"caf%E9\""));
}

#[test]
fn a_title_is_escaped() {
    let (dir, tree) = tree(&[], &["<b>&\u{202e}"]);
    fs::write(dir.path().join("<b>&\u{202e}/x"), "").unwrap();
    let page = parts(&tree, "<b>&\u{202e}", MOST_ROWS).concat();
    assert!(page.contains("<title>/&lt;b&gt;&amp;\\u{202e}/</title>"), "{page}");
}

/// No name ends a line, orders its neighbours or hides a part of itself.
#[test]
fn what_is_not_seen_is_written_out() {
    let odd = "a\n\r\t\u{7f}\u{85}\u{1b}[31m\u{202e}gpj\u{2066}\u{61c}\u{200b}\u{feff}\u{2028}.exe";
    let page = page(&[odd.as_bytes(), "\u{5d0}\u{200d}b".as_bytes()], &[]);
    assert!(page.contains(
        "<bdi>a\\u{a}\\u{d}\\u{9}\\u{7f}\\u{85}\\u{1b}[31m\\u{202e}gpj\\u{2066}\\u{61c}\\u{200b}\\u{feff}\\u{2028}.exe</bdi>"
    ));
    assert!(page.contains("<bdi>\u{5d0}\u{200d}b</bdi>"), "a script of its own, and a joiner");
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn directories_first_then_by_name() {
    let page = page(&[b"b", b"a"], &["z"]);
    let at = |link: &str| page.find(&format!("href=\"{link}\"")).unwrap();
    assert!(at("z/") < at("a") && at("a") < at("b"));
    assert!(page.contains("<td>3</td>"));
}

#[test]
fn the_way_up_is_shown_below_the_top_only() {
    let (_dir, tree) = tree(&[], &["a"]);
    assert!(!parts(&tree, "", MOST_ROWS).concat().contains("../"));
    assert!(parts(&tree, "a", MOST_ROWS).concat().contains("href=\"../\""));
}

/// A page that is cut shows the first of all, whatever the order in which the system gives them.
#[test]
fn a_cut_page_shows_the_first() {
    let names: Vec<String> = (0..1_000).map(|i| format!("{:04}", i * 7 % 1_000)).collect();
    let (_dir, tree) = tree(&names.iter().map(String::as_bytes).collect::<Vec<_>>(), &["z"]);
    for most in [1, 2, ROWS, ROWS + 1, 600, 1_001, 2_000] {
        let parts = parts(&tree, "", most);
        let page = parts.concat();
        let shown: Vec<&str> =
            page.split("<a href=\"").skip(1).map(|r| r.split('"').next().unwrap()).collect();
        let expect: Vec<String> =
            ["z/".to_owned()].into_iter().chain((0..1_000).map(|i| format!("{i:04}"))).collect();
        assert_eq!(shown, expect[..most.min(1_001)]);
        assert_eq!(page.contains(&format!("Only the first {most} entries")), most < 1_001);
        assert_eq!(page.matches("<html").count() + page.matches("</html>").count(), 2);
        assert!(parts.len() <= most / ROWS + 1);
    }
}

/// Details of another file system that come too late are not shown; those of the directory itself are.
#[test]
fn what_is_not_seen_in_time() {
    let (dir, tree) = tree(&[b"a", b"b"], &["d"]);
    std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
    let found = tree.look(Path::new(""), Wait::Anything).unwrap();
    let mut page = Page::new(found, PathBuf::new(), Wait::Anything);
    let mut part = page.next(&tree).unwrap();
    let (details, seen) = page.details(&part).unwrap();
    assert_eq!(details.paths.len(), 4);
    // The first is seen, and the second hangs.
    part.fill_in(vec![State::of(tree.look(Path::new("d"), Wait::Anything))]);
    assert!(seen.lock().unwrap().is_empty());
    let page = page.render(&part);
    assert!(page.contains("<bdi>a</bdi></a></td><td>-</td><td></td>"), "{page}");
    assert!(page.contains("href=\"d/\"") && page.contains("href=\"b\"") && !page.contains("link"));
}
