//! The options for TLS between processes.

use std::io;
use std::path::{Path, PathBuf};

use chanter_cluster::launcher;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct TlsArgs {
    /// The processes' certificate, in PEM: they talk by TLS over TCP (they need the feature `tls` of chanter-cluster). The
    /// paths are the same on all computers
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The certificates of those who sign the processes' certificates
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Name for which the certificate is, if it is not for the address of each process
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    tls_name: Option<String>,
}

impl TlsArgs {
    /// Whether the processes talk by TLS.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// TLS settings for the processes.
    ///
    /// # Errors
    /// A file is not there, or its path is no text.
    pub(crate) fn here(&self) -> io::Result<Vec<(&'static str, String)>> {
        self.by(|file| std::fs::canonicalize(file))
    }

    /// TLS settings for processes on other computers, whose files are looked for there.
    ///
    /// # Errors
    /// The path of a file is no text.
    pub(crate) fn there(&self) -> io::Result<Vec<(String, String)>> {
        let tls = self.by(|file| std::path::absolute(file))?;
        Ok(tls.into_iter().map(|(variable, value)| (variable.to_owned(), value)).collect())
    }

    /// TLS settings, with absolute paths: a process may have another working folder.
    fn by(&self, absolute: impl Fn(&Path) -> io::Result<PathBuf>) -> io::Result<Vec<(&'static str, String)>> {
        let files = [
            (launcher::TLS_CERT, &self.tls_cert),
            (launcher::TLS_KEY, &self.tls_key),
            (launcher::TLS_CA, &self.tls_ca),
        ];
        let mut said = Vec::new();
        for (variable, file) in files {
            let Some(file) = file else { continue };
            let cannot =
                |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
            let path = absolute(file).map_err(|error| cannot(&error))?;
            let path = path.into_os_string().into_string().map_err(|_| cannot(&"the path is no text"))?;
            said.push((variable, path));
        }
        said.extend(self.tls_name.clone().map(|name| (launcher::TLS_NAME, name)));
        Ok(said)
    }
}
