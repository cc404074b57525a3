//! Passing the segment to the other processes of a node where no launcher has handed it down.
//!
//! The lowest process of the node makes the segment and an [`Offer`]; its card travels to the others by
//! whatever process manager there is, and they [`fetch`] the descriptor over an abstract Unix socket. Whoever
//! knows of the socket may connect, so nobody is believed: the other side must run as the same user and show
//! the card's secret, one that says nothing is waited for beside the others, and everything has a time limit.
//!
//! ```text
//! fetcher                        server
//!   -- secret, 16 bytes ------->
//!   <- 1 byte + descriptor -----
//!   -- 1 byte ----------------->   counted
//! ```

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::anonymous::anew;
use crate::system::same_user;

/// A socket at which the segment can be fetched.
pub struct Offer {
    listener: OwnedFd,
    secret: Secret,
}

/// Why a segment was not handed over. The second line of each text is the remedy.
#[derive(Debug, thiserror::Error)]
pub enum HandoutError {
    /// The card is none.
    #[error(
        "shm: what came as the card of this node's shared memory is none: {0}\n\
         Start all processes of a job with one version of weft"
    )]
    Card(String),
    /// Nobody there, or somebody else.
    #[error(
        "shm: this node's shared memory cannot be fetched: {0}\n\
         If processes of one node run in different containers, choose another fabric: WEFT_FABRIC=tcp"
    )]
    Refused(String),
    /// Time is up.
    #[error(
        "shm: {came} of {expected} processes of this node have fetched its shared memory in {seconds} s\n\
         One of them has died or hangs before MPI_Init, or another fabric is needed: WEFT_FABRIC=tcp"
    )]
    Missing {
        /// Who came.
        came: usize,
        /// Who was expected.
        expected: usize,
        /// How long they had.
        seconds: u64,
    },
    /// The system refused something.
    #[error("shm: {doing}: {errno}\nIf a sandbox forbids it, choose another fabric: WEFT_FABRIC=tcp")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        errno: Errno,
    },
}

impl Offer {
    /// Opens the socket. The second value is the card for [`fetch`]: it holds a secret, and is for the
    /// processes of the job only.
    ///
    /// # Errors
    /// [`HandoutError::System`].
    pub fn open() -> Result<(Offer, Vec<u8>), HandoutError> {
        let listener = unix_socket()?;
        let system = |doing| move |errno| HandoutError::System { doing, errno };
        // Binding an address without a name lets the kernel choose one that is free.
        rustix::net::bind(&listener, &SocketAddrUnix::new_unnamed())
            .map_err(system("naming a socket for this node's shared memory"))?;
        rustix::net::listen(&listener, BACKLOG)
            .map_err(system("opening a socket for this node's shared memory"))?;
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|_| system("drawing a random number")(Errno::IO))?;
        let address = rustix::net::getsockname(&listener).map_err(system("asking for a socket's name"))?;
        let address = SocketAddrUnix::try_from(address).map_err(system("asking for a socket's name"))?;
        let name = address.abstract_name().unwrap_or_default();
        let card = [CARD_MAGIC, &secret, name].concat();
        Ok((Offer { listener, secret: Secret(secret) }, card))
    }

    /// Hands `segment` to `peers` processes, or to as many as come in time.
    ///
    /// # Errors
    /// [`HandoutError::Missing`] when time is up, [`HandoutError::System`].
    pub fn serve(
        &self,
        segment: BorrowedFd<'_>,
        peers: usize,
        timeout: Duration,
    ) -> Result<(), HandoutError> {
        let deadline = Instant::now() + timeout;
        let mut clients: Vec<Client> = Vec::new();
        let mut came = 0;
        while came < peers {
            let missing = HandoutError::Missing { came, expected: peers, seconds: timeout.as_secs() };
            let left = deadline.checked_duration_since(Instant::now()).ok_or(missing)?;
            self.wait(&clients, left)?;
            self.welcome(&mut clients)?;
            clients.retain_mut(|client| match client.go_on(&self.secret, segment) {
                Going::On => true,
                Going::Away => false,
                Going::Served => {
                    came += 1;
                    false
                }
            });
        }
        Ok(())
    }

    /// Sleeps until a client connects or sends.
    fn wait(&self, clients: &[Client], left: Duration) -> Result<(), HandoutError> {
        let mut all: Vec<PollFd<'_>> = vec![PollFd::new(&self.listener, PollFlags::IN)];
        all.extend(clients.iter().map(|client| PollFd::new(&client.socket, PollFlags::IN)));
        match poll(&mut all, Some(&timespec(left))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => {
                Err(HandoutError::System { doing: "waiting for the processes of this node", errno })
            }
        }
    }

    /// Accepts all clients of the same user. Of too many silent clients, the first is dropped.
    fn welcome(&self, clients: &mut Vec<Client>) -> Result<(), HandoutError> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => {
                    return Err(HandoutError::System { doing: "taking in processes of this node", errno });
                }
            };
            if !same_user(&socket) {
                continue;
            }
            if clients.len() == CLIENTS_MAX {
                clients.remove(0);
            }
            clients.push(Client { socket, said: Said::Secret { bytes: [0; SECRET_BYTES], count: 0 } });
        }
    }
}

/// Fetches the descriptor that the server of `card` offers, for [`Segment::adopt`](crate::Segment::adopt).
///
/// # Errors
/// [`HandoutError::Card`], [`HandoutError::Refused`] and [`HandoutError::System`].
pub fn fetch(card: &[u8], timeout: Duration) -> Result<OwnedFd, HandoutError> {
    let (secret, address) = parse(card)?;
    let deadline = Instant::now() + timeout;
    loop {
        match fetch_once(secret, &address, deadline) {
            // Turned away among too many clients, or at the end of a long queue.
            Err(Errno::AGAIN | Errno::CONNRESET | Errno::PIPE) if Instant::now() < deadline => {
                std::thread::sleep(RETRY_PAUSE);
            }
            Err(Errno::TIMEDOUT | Errno::AGAIN) => {
                let seconds = timeout.as_secs();
                return Err(HandoutError::Refused(format!("no answer in {seconds} s")));
            }
            Err(errno) => return Err(HandoutError::Refused(errno.to_string())),
            Ok(segment) => return Ok(segment),
        }
    }
}

fn fetch_once(secret: &[u8], address: &SocketAddrUnix, deadline: Instant) -> Result<OwnedFd, Errno> {
    let socket = unix_socket().map_err(|_| Errno::MFILE)?;
    rustix::net::connect(&socket, address)?;
    if !same_user(&socket) {
        return Err(Errno::ACCESS);
    }
    rustix::net::send(&socket, secret, SendFlags::NOSIGNAL)?;
    wait_readable(&socket, deadline)?;
    let segment = anew(receive_descriptor(&socket)?.as_raw_fd())?;
    rustix::net::send(&socket, &[TAKEN], SendFlags::NOSIGNAL)?;
    Ok(segment)
}

fn wait_readable(socket: &OwnedFd, deadline: Instant) -> Result<(), Errno> {
    loop {
        let left = deadline.checked_duration_since(Instant::now()).ok_or(Errno::TIMEDOUT)?;
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timespec(left))) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
}

/// Receives one byte with one descriptor.
fn receive_descriptor(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut vectors = [IoSliceMut::new(&mut byte)];
    let got = rustix::net::recvmsg(socket, &mut vectors, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match descriptor {
        Some(descriptor) if got.bytes == 1 => Ok(descriptor),
        _ => Err(Errno::CONNRESET),
    }
}

fn send_descriptor(socket: &OwnedFd, descriptor: BorrowedFd<'_>) -> Result<usize, Errno> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&[TAKEN])], &mut ancillary, SendFlags::NOSIGNAL)
}

/// A process that has connected.
struct Client {
    socket: OwnedFd,
    said: Said,
}

/// How far a client has come.
enum Said {
    /// `count` bytes of the secret have come.
    Secret { bytes: [u8; SECRET_BYTES], count: usize },
    /// The whole secret has come, and the descriptor is on its way.
    All,
}

/// What is to become of a client.
enum Going {
    On,
    Away,
    Served,
}

impl Client {
    /// Reads what the client has sent, without waiting.
    fn go_on(&mut self, secret: &Secret, segment: BorrowedFd<'_>) -> Going {
        match &mut self.said {
            Said::Secret { bytes, count } => {
                match rustix::net::recv(&self.socket, &mut bytes[*count..], RecvFlags::empty()) {
                    Ok((0, _)) => return Going::Away,
                    Ok((more, _)) => *count += more,
                    Err(Errno::AGAIN | Errno::INTR) => return Going::On,
                    Err(_) => return Going::Away,
                }
                if *count < SECRET_BYTES {
                    return Going::On;
                }
                if !secret.is(bytes) || send_descriptor(&self.socket, segment).is_err() {
                    return Going::Away;
                }
                self.said = Said::All;
                Going::On
            }
            Said::All => match rustix::net::recv(&self.socket, &mut [0][..], RecvFlags::empty()) {
                Ok((1.., _)) => Going::Served,
                Err(Errno::AGAIN | Errno::INTR) => Going::On,
                _ => Going::Away,
            },
        }
    }
}

/// What a fetcher must show.
struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// Compares in a time that does not depend on where the first difference is.
    fn is(&self, shown: &[u8; SECRET_BYTES]) -> bool {
        self.0.iter().zip(shown).fold(0, |difference, (ours, theirs)| difference | (ours ^ theirs)) == 0
    }
}

/// The secret and the socket's address, out of a card.
fn parse(card: &[u8]) -> Result<(&[u8], SocketAddrUnix), HandoutError> {
    let bad = |why: &str| HandoutError::Card(format!("{why} ({} bytes)", card.len()));
    let rest = card.strip_prefix(CARD_MAGIC).ok_or_else(|| bad("it begins wrongly"))?;
    let (secret, name) = rest.split_at_checked(SECRET_BYTES).ok_or_else(|| bad("it is too short"))?;
    if name.is_empty() {
        return Err(bad("it names no socket"));
    }
    let address =
        SocketAddrUnix::new_abstract_name(name).map_err(|_| bad("its socket has no possible name"))?;
    Ok((secret, address))
}

fn unix_socket() -> Result<OwnedFd, HandoutError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|errno| {
        HandoutError::System { doing: "making a socket for this node's shared memory", errno }
    })
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

const CARD_MAGIC: &[u8] = b"weft-fd/1";
const SECRET_BYTES: usize = 16;
const TAKEN: u8 = 1;
/// Connections that wait to be taken in.
const BACKLOG: i32 = 256;
/// Connections that have not shown the secret yet.
const CLIENTS_MAX: usize = 256;
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// What `crate::fuzzing` needs of this file.
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing {
    use super::{BorrowedFd, Client, Going, OwnedFd, SECRET_BYTES, Said, Secret, parse};

    pub(crate) fn is_card(bytes: &[u8]) -> bool {
        parse(bytes).is_ok()
    }

    pub(crate) struct FuzzedHandout(Client);

    impl FuzzedHandout {
        pub(crate) fn new(socket: OwnedFd) -> FuzzedHandout {
            FuzzedHandout(Client { socket, said: Said::Secret { bytes: [0; SECRET_BYTES], count: 0 } })
        }

        pub(crate) fn go_on(&mut self, secret: [u8; SECRET_BYTES], segment: BorrowedFd<'_>) -> Option<bool> {
            match self.0.go_on(&Secret(secret), segment) {
                Going::On => None,
                Going::Served => Some(true),
                Going::Away => Some(false),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use std::io::{Read, Write};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    const SOON: Duration = Duration::from_millis(30);
    const PATIENCE: Duration = Duration::from_secs(30);

    fn segment() -> OwnedFd {
        crate::Segment::create(4).unwrap()
    }

    fn stranger(card: &[u8]) -> UnixStream {
        let name = &card[CARD_MAGIC.len() + SECRET_BYTES..];
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    }

    #[test]
    fn everybody_gets_the_same_segment() {
        let (offer, card) = Offer::open().unwrap();
        let file = segment();
        std::thread::scope(|scope| {
            let fetchers: Vec<_> = (0..3).map(|_| scope.spawn(|| fetch(&card, PATIENCE).unwrap())).collect();
            offer.serve(file.as_fd(), 3, PATIENCE).unwrap();
            let ours = crate::Segment::adopt(file.try_clone().unwrap(), 4).unwrap();
            for fetcher in fetchers {
                let theirs = crate::Segment::adopt(fetcher.join().unwrap(), 4).unwrap();
                assert_eq!(ours.identity(), theirs.identity());
            }
        });
    }

    #[test]
    fn strangers_neither_get_it_nor_disturb() {
        let (offer, card) = Offer::open().unwrap();
        let file = segment();
        let mut silent: Vec<_> = (0..40).map(|_| stranger(&card)).collect();
        let mut wrong = stranger(&card);
        wrong.write_all(&[7; 100]).unwrap();
        let mut partial = stranger(&card);
        partial.write_all(&card[CARD_MAGIC.len()..][..5]).unwrap();
        drop(stranger(&card));
        std::thread::scope(|scope| {
            let fetcher = scope.spawn(|| fetch(&card, PATIENCE).map(drop));
            offer.serve(file.as_fd(), 1, PATIENCE).unwrap();
            fetcher.join().unwrap().unwrap();
        });
        for socket in silent.iter_mut().chain([&mut wrong, &mut partial]) {
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer);
            assert!(answer.is_empty(), "a stranger was answered");
        }
    }

    #[test]
    fn a_crowd_of_silent_strangers_is_bounded_and_passes() {
        let (offer, card) = Offer::open().unwrap();
        let file = segment();
        std::thread::scope(|scope| {
            let fetcher = scope.spawn(|| {
                let crowd: Vec<_> = (0..2 * CLIENTS_MAX).map(|_| stranger(&card)).collect();
                let fetched = fetch(&card, PATIENCE).map(drop);
                drop(crowd);
                fetched
            });
            offer.serve(file.as_fd(), 1, PATIENCE).unwrap();
            fetcher.join().unwrap().unwrap();
        });
    }

    #[test]
    fn who_does_not_come_is_counted() {
        let (offer, _card) = Offer::open().unwrap();
        let error = offer.serve(segment().as_fd(), 2, SOON).unwrap_err().to_string();
        assert!(error.contains("0 of 2 processes"), "{error}");
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for_forever() {
        let (_offer, card) = Offer::open().unwrap();
        let error = fetch(&card, SOON).unwrap_err().to_string();
        assert!(error.contains("no answer"), "{error}");
    }

    #[test]
    fn a_server_that_is_gone_is_an_error_at_once() {
        let (offer, card) = Offer::open().unwrap();
        drop(offer);
        assert!(matches!(fetch(&card, PATIENCE), Err(HandoutError::Refused(_))));
    }

    #[test]
    fn nonsense_is_no_card() {
        let (_offer, card) = Offer::open().unwrap();
        for bytes in 0..CARD_MAGIC.len() + SECRET_BYTES {
            assert!(matches!(fetch(&card[..bytes], SOON), Err(HandoutError::Card(_))), "{bytes} bytes");
        }
        let long = [&card[..], &[b'x'; 200]].concat();
        assert!(matches!(fetch(&long, SOON), Err(HandoutError::Card(_))));
    }
}
