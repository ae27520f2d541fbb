//! Where a server listens, and a connection of either kind.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::Shutdown;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

/// Port of NBD, as IANA lists it.
const NBD_PORT: u16 = 10_809;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// An address of the internet protocol.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    /// `unix:PATH`, `tcp:ADDRESS:PORT` or `tcp:ADDRESS`, an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: needs a path, such as unix:/tmp/card.sock".into());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let Some(place) = text.strip_prefix("tcp:") else {
            return Err(format!(
                "{text:?} must be unix:PATH or tcp:ADDRESS:PORT, such as tcp:127.0.0.1:{NBD_PORT}"
            ));
        };
        let whole: Result<SocketAddr, _> = place.parse();
        let bare =
            || place.trim_matches(['[', ']']).parse().map(|ip: IpAddr| (ip, NBD_PORT).into());
        match whole.or_else(|_| bare()) {
            Ok(address) => Ok(Self::Tcp(address)),
            Err(_) => Err(format!(
                "tcp:{place} must be a number address and a port, such as tcp:127.0.0.1:{NBD_PORT}"
            )),
        }
    }
}

impl Address {
    /// True if only this machine reaches it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Tcp(address) => write!(formatter, "tcp:{address}"),
        }
    }
}

/// A listening socket.
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Unix(path) => Self::Unix(UnixListener::bind(path)?),
            Address::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
        })
    }

    /// Where it listens; a port of zero was replaced by a free one.
    pub(crate) fn address(&self, asked: &Address) -> Address {
        match (self, asked) {
            (Self::Tcp(listener), Address::Tcp(asked)) => {
                Address::Tcp(listener.local_addr().unwrap_or(*asked))
            }
            _ => asked.clone(),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Unix(listener) => Socket::Unix(listener.accept()?.0),
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // A reply of some bytes must not wait for more.
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
        })
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    /// Ends both directions, for all copies of the socket.
    pub(crate) fn shut(&self) {
        // A connection that the client closed is shut already.
        let _ = rustix::net::shutdown(self, Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read_or_refused_with_an_example() {
        for (text, local) in [
            ("unix:/tmp/a.sock", true),
            ("tcp:127.0.0.1:0", true),
            ("tcp:127.0.0.1", true),
            ("tcp:[::1]:10809", true),
            ("tcp:[::1]", true),
            ("tcp:0.0.0.0:10809", false),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.is_local(), local, "{text}");
        }
        for text in ["", "unix:", "/tmp/a.sock", "tcp:", "tcp:localhost:1", "udp:127.0.0.1:1"] {
            let told = text.parse::<Address>().expect_err(text);
            assert!(told.contains("such as"), "{told}");
        }
    }
}
