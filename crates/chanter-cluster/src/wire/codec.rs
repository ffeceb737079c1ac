//! Values as bytes.

use chanter_engine::wire::Body;
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::contents::Contents;
use super::transfer::writing;
use super::written::Written;

/// Writes a value straight into a body.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Body, String> {
    // Most values are short. A long one takes other memory later, and leaves this for reuse.
    encode_into(Body::with_capacity(0), value)
}

/// Writes a value into an empty message, in place.
#[inline]
pub(crate) fn write<T: Serialize + ?Sized>(value: &T, written: &mut Written) -> Result<(), String> {
    let (result, transfer) = writing(|| postcard::serialize_with_flavor(value, InPlace(&mut *written)));
    result.map_err(|error| error.to_string())?;
    if let Some(transfer) = transfer {
        written.add_transfer(transfer);
    }
    Ok(())
}

/// Appends a value to a body.
pub(crate) fn encode_into<T: Serialize + ?Sized>(body: Body, value: &T) -> Result<Body, String> {
    let (body, transfer) = writing(|| postcard::serialize_with_flavor(value, Writer(body)));
    let mut body = body.map_err(|error| error.to_string())?;
    if let Some(transfer) = transfer {
        body.add_transfer(transfer);
    }
    Ok(body)
}

/// Lets postcard write into a body.
struct Writer(Body);

impl Flavor for Writer {
    type Output = Body;

    #[inline(always)]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline(always)]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() <= NUMBER {
            self.0.extend_slowly(bytes);
        } else {
            self.0.extend_from_slice(bytes);
        }
        Ok(())
    }

    #[inline(always)]
    fn finalize(self) -> postcard::Result<Body> {
        Ok(self.0)
    }
}

/// Largest number of bytes of an encoded 64-bit number.
const NUMBER: usize = 10;

/// Lets postcard write into the message itself.
struct InPlace<'a>(&'a mut Written);

impl Flavor for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline(always)]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() <= NUMBER {
            self.0.extend_slowly(bytes);
        } else {
            self.0.extend_from_slice(bytes);
        }
        Ok(())
    }

    #[inline(always)]
    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Numbers of one type, which travel as they lie in memory: with one copy on each side, instead of one by one.
///
/// ```
/// use chanter_cluster::Plain;
/// let row = Plain(vec![0.5_f64; 1024]);
/// # let bytes = postcard::to_allocvec(&row).unwrap();
/// # assert!(bytes.len() < 8 * 1024 + 4);
/// # let Plain(same): Plain<f64> = postcard::from_bytes(&bytes).unwrap();
/// # assert_eq!(same, row.0);
/// ```
///
/// # Errors
/// A process on a machine with another byte order cannot read them, and gets an error that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plain<T>(pub Vec<T>);

/// Byte that precedes the numbers and tells their byte order.
const ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

impl<T: bytemuck::Pod> Serialize for Plain<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PlainBytes(bytemuck::cast_slice(&self.0)).serialize(serializer)
    }
}

/// The bytes of a [`Plain`], in any place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlainBytes<'a>(pub(crate) &'a [u8]);

impl Serialize for PlainBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (ORDER, Bytes(self.0)).serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PlainBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (order, Bytes(bytes)) = <(u8, Bytes<'de>)>::deserialize(deserializer)?;
        if order != ORDER {
            return Err(de::Error::custom("plain data of a machine with another byte order"));
        }
        Ok(Self(bytes))
    }
}

impl<'de, T: bytemuck::Pod> Deserialize<'de> for Plain<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PlainBytes(bytes) = PlainBytes::deserialize(deserializer)?;
        if size_of::<T>() == 0 || bytes.len() % size_of::<T>() != 0 {
            return Err(de::Error::custom("plain data of another size"));
        }
        Ok(Self(collect(bytes)))
    }
}

/// Copies numbers from bytes of any alignment, whose length is a multiple of the numbers' size. (The new memory is
/// not zeroed first.)
fn collect<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    let count = bytes.len() / size_of::<T>();
    let mut numbers = Vec::<T>::with_capacity(count);
    // SAFETY: there is room for `count` numbers, which take no more bytes than there are. Any bytes are such numbers
    // (`Pod`). The memory is new, so the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), numbers.as_mut_ptr().cast(), count * size_of::<T>());
        numbers.set_len(count);
    }
    numbers
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de [u8]>::deserialize(deserializer).map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    #[test]
    fn a_value_comes_back() {
        let value = (7_u32, "seven".to_owned(), vec![Some(1.5_f64), None]);
        assert_eq!(decode(&encode(&value).unwrap()), Ok(value));
    }

    #[test]
    fn bytes_that_are_no_such_value_are_refused() {
        let body = encode(&(1_u8, 2_u8)).unwrap();
        assert!(decode::<u8>(&body).unwrap_err().contains("1 bytes are left over"));
        assert!(decode::<(u8, u8, u8)>(&body).is_err());
        assert!(decode::<String>(&[200, 1]).is_err());
    }

    #[test]
    fn plain_data_is_copied_as_it_is() {
        let row = Plain(vec![1.0_f64, -2.5, f64::MAX]);
        let body = encode(&row).unwrap();
        assert_eq!(body.len(), 1 + 1 + 24);
        assert_eq!(decode(&body), Ok(row));
        assert!(decode::<Plain<[u8; 7]>>(&body).unwrap_err().len() > 3);
        let mut other = encode(&Plain(vec![1_u32])).unwrap().to_vec();
        other[0] = 3 - ORDER;
        assert!(decode::<Plain<u32>>(&other).is_err());
    }
}
