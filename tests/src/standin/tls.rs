//! Connections, encrypted where the stand-in has a certificate.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// What bytes go through.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection, encrypted or not.
pub(super) type Socket = Box<dyn Wire>;

/// How connections are encrypted, if they are.
#[derive(Clone, Default)]
pub(super) struct Encryption(Option<TlsAcceptor>);

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encryption").field(&self.0.is_some()).finish()
    }
}

impl Encryption {
    /// With `server.pem` and `server.key` of a folder. If it has a `clients.pem`, clients must show a certificate which
    /// that has signed.
    ///
    /// # Errors
    /// When a file can't be read, or is none of its kind.
    pub(super) fn of_folder(folder: &Path) -> Result<Self> {
        let certificates = certificates(&folder.join("server.pem"))?;
        let key = folder.join("server.key");
        let key = PrivateKeyDer::from_pem_file(&key).with_context(|| key.display().to_string())?;
        let provider = Arc::new(ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let signer = folder.join("clients.pem");
        let config = if signer.exists() {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(self::certificates(&signer)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            config.with_client_cert_verifier(verifier)
        } else {
            config.with_no_client_auth()
        };
        Ok(Self(Some(TlsAcceptor::from(Arc::new(config.with_single_cert(certificates, key)?)))))
    }

    /// A connection that has just been accepted, as it is to be read and written.
    ///
    /// # Errors
    /// When the client doesn't agree on how to encrypt it.
    pub(super) async fn begin(&self, socket: TcpStream) -> io::Result<Socket> {
        socket.set_nodelay(true)?;
        Ok(match &self.0 {
            Some(acceptor) => Box::new(acceptor.accept(socket).await?),
            None => Box::new(socket),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    read().with_context(|| path.display().to_string())
}
