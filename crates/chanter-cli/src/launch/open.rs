//! The file by which processes join a running job: variables of the environment, one in a line.

use std::io::{self, Write};
use std::path::Path;

use chanter_cluster::{join, launcher};

/// Writes the file, which this user alone may read. A file of that name is replaced.
pub(super) fn write(file: &Path, addresses: &str, secret: &str) -> io::Result<()> {
    let said = |error: io::Error| io::Error::other(format!("{}: {error}", file.display()));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Nobody sees half of it.
    let mut new = tempfile::Builder::new().prefix(".chanter-").tempfile_in(folder).map_err(said)?;
    let text = format!("{}={addresses}\n{}={secret}\n", join::SEEDS, launcher::SECRET);
    new.as_file_mut().write_all(text.as_bytes()).map_err(said)?;
    new.persist(file).map_err(|error| said(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_reads_the_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job");
        for secret in ["ab", "cd"] {
            write(&file, "tcp:127.0.0.1:7", secret).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(text, format!("CHANTER_SEEDS=tcp:127.0.0.1:7\nCHANTER_SECRET={secret}\n"));
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let error = write(&folder.path().join("none/job"), "", "").unwrap_err();
        assert!(error.to_string().contains("none/job"), "{error}");
    }
}
