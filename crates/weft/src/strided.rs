//! Views of values that stand apart in a slice, such as a column of a matrix that is kept by rows.

use datatype::Datatype as Compiled;
use job::error::{Class, Error, Result};
use messaging::{Data, Mode, Rank, Target};

use crate::communicator::{Communicator, Status};
use crate::memory::{Datatype, reading, writing};
use crate::scattered::{Gathered, Scattered};
use crate::typed::{Begins, BegunRequest, check_tag};
use crate::values::{compiled, refused, spread};

/// Some values of a slice: blocks of them at a fixed stride (MPI 5.0 §5.1.2, MPI_Type_vector).
///
/// ```
/// use weft::{Config, Rank, Strided, StridedMut, run_threads};
///
/// run_threads(2, &Config::default(), |session| {
///     let world = session.world();
///     // The last column of a matrix of 3 rows and 4 columns goes to the first of another.
///     if world.rank() == Rank(0) {
///         let matrix: Vec<f64> = (0..12).map(f64::from).collect();
///         world.send_strided(Strided::new(&matrix[3..], 1, 4).unwrap(), Rank(1), 0).unwrap();
///     } else {
///         let mut matrix = vec![-1.0; 12];
///         world.receive_strided(StridedMut::new(&mut matrix, 1, 4).unwrap(), Rank(0), 0).unwrap();
///         assert_eq!((matrix[0], matrix[4], matrix[8]), (3.0, 7.0, 11.0));
///         assert_eq!(matrix.iter().filter(|&&value| value == -1.0).count(), 9);
///     }
/// })?;
/// # Ok::<(), weft::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, T> {
    values: &'a [T],
    shape: StridedBlocks,
}

/// Some values of a slice, to be written: blocks of them at a fixed stride (MPI 5.0 §5.1.2, MPI_Type_vector).
#[derive(Debug)]
pub struct StridedMut<'a, T> {
    values: &'a mut [T],
    shape: StridedBlocks,
}

/// `count` blocks of `block` values, one every `stride` values.
#[derive(Clone, Copy, Debug)]
struct StridedBlocks {
    count: usize,
    block: usize,
    stride: usize,
}

impl StridedBlocks {
    /// As many as there are in so many values.
    fn of(values: usize, block: usize, stride: usize) -> Result<StridedBlocks> {
        if block == 0 || stride < block {
            let what = format!("blocks of {block} values, one every {stride}");
            return Err(Error::new(Class::Argument, what)
                .remedy("a block has at least one value, and the next begins where it ends or later"));
        }
        let count = if values < block { 0 } else { (values - block) / stride + 1 };
        Ok(StridedBlocks { count, block, stride })
    }

    fn len(self) -> usize {
        self.count * self.block
    }

    fn datatype<T: Datatype>(self) -> Result<Compiled> {
        let [count, block, stride] = [self.count, self.block, self.stride].map(|number| number as i64);
        Compiled::vector(count, block, stride, &compiled::<T>()?).map_err(refused)
    }
}

impl<'a, T: Datatype> Strided<'a, T> {
    /// Blocks of `block` values, one every `stride`, as many as end inside the slice.
    ///
    /// # Errors
    /// [`Class::Argument`] where blocks are empty or overlap.
    pub fn new(values: &'a [T], block: usize, stride: usize) -> Result<Strided<'a, T>> {
        Ok(Strided { values, shape: StridedBlocks::of(values.len(), block, stride)? })
    }

    /// How many values are seen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> {
        let StridedBlocks { count, block, stride } = self.shape;
        self.values.chunks(stride).take(count).flat_map(move |chunk| &chunk[..block])
    }
}

impl<'a, T: Datatype> StridedMut<'a, T> {
    /// Blocks of `block` values, one every `stride`, as many as end inside the slice.
    ///
    /// # Errors
    /// [`Class::Argument`] where blocks are empty or overlap.
    pub fn new(values: &'a mut [T], block: usize, stride: usize) -> Result<StridedMut<'a, T>> {
        let shape = StridedBlocks::of(values.len(), block, stride)?;
        Ok(StridedMut { values, shape })
    }

    /// How many values there is room for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// Whether there is no room.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Communicator {
    /// Sends values that stand apart. The receiver may take them as a row, or spread them otherwise.
    ///
    /// # Errors
    /// [`Class::Rank`], [`Class::Tag`], or that the peer is gone.
    pub fn send_strided<T: Datatype>(&self, values: Strided<'_, T>, to: Rank, tag: i32) -> Result<()> {
        check_tag(tag)?;
        let datatype = values.shape.datatype::<T>()?;
        let gathered = Gathered::new(&datatype, 1, reading(values.values))?;
        self.send_claim(Data::Apart(&gathered), to, tag, Mode::Blocking)
    }

    /// Receives values to places that stand apart; what lies between them stays.
    ///
    /// # Errors
    /// [`Class::Truncated`] where the message is longer; [`Class::Rank`]; [`Class::Type`] where the message
    /// does not end with a whole value; a lost peer.
    pub fn receive_strided<T: Datatype>(
        &self,
        room: StridedMut<'_, T>,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Result<Status> {
        let (memory, landing) = spread(room.shape.datatype::<T>()?, 1)?;
        let received = self.receive_claim(memory, from.into(), tag.into())?;
        landing.land(room.values, received.status.bytes)?;
        received.error.map_or(Ok(received.status), Err)
    }

    /// Begins to send values that stand apart: blocks of `block` values, one every `stride` of the vector, as
    /// [`Strided::new`] has them. The vector comes back when they are sent.
    ///
    /// ```
    /// use weft::{Config, Rank, block_on, run_threads};
    ///
    /// run_threads(2, &Config::default(), |session| {
    ///     let world = session.world();
    ///     let other = Rank(1 - world.rank().0);
    ///     let matrix: Vec<f64> = (0..12).map(f64::from).collect();
    ///     let (mine, came) = block_on(async {
    ///         // The first columns of matrices of 3 rows and 4 columns change places.
    ///         let receive = world.ireceive_strided(matrix.clone(), 1, 4, other, 0)?;
    ///         let send = world.isend_strided(matrix, 1, 4, other, 0)?;
    ///         Ok::<_, weft::Error>((send.await?.0, receive.await?.0))
    ///     })
    ///     .unwrap();
    ///     assert_eq!(mine, came);
    /// })?;
    /// # Ok::<(), weft::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Class::Argument`] where blocks are empty or overlap; [`Class::Rank`], [`Class::Tag`], or that the
    /// peer is gone. The vector comes back with the error.
    pub fn isend_strided<T: Datatype>(
        &self,
        values: Vec<T>,
        block: usize,
        stride: usize,
        to: Rank,
        tag: i32,
    ) -> Begins<T> {
        self.begin_on(values, |values| {
            check_tag(tag)?;
            let datatype = StridedBlocks::of(values.len(), block, stride)?.datatype::<T>()?;
            let gathered = Gathered::new(&datatype, 1, reading(values))?;
            let sending = self.start_send(Data::Apart(&gathered), to, tag, Mode::Standard)?;
            Ok(BegunRequest::Send { sending, to, tag, keeps: None })
        })
    }

    /// Begins to receive into blocks of a vector that are noncontiguous, as [`StridedMut::new`] has them. The
    /// vector comes back with all its values; the values between the blocks are unchanged.
    /// [`Communicator::isend_strided`] sends such blocks.
    ///
    /// # Errors
    /// [`Class::Argument`] where blocks are empty or overlap; [`Class::Rank`]. The vector comes back with the
    /// error. Where the receive fails later, the vector comes back from
    /// [`OwnedRequest::wait_with_values`](crate::OwnedRequest::wait_with_values).
    pub fn ireceive_strided<T: Datatype>(
        &self,
        values: Vec<T>,
        block: usize,
        stride: usize,
        from: impl Into<Option<Rank>>,
        tag: impl Into<Option<i32>>,
    ) -> Begins<T> {
        self.begin_on(values, |values| {
            let datatype = StridedBlocks::of(values.len(), block, stride)?.datatype::<T>()?;
            let scattered = Scattered::new(&datatype, 1, writing(values))?;
            let target = Target::Scattered(Box::new(scattered));
            Ok(BegunRequest::Spread(self.start_receive(target, from.into(), tag.into())?))
        })
    }
}
