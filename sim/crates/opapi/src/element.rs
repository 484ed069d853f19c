//! Elements of tensors.

use sim_boundary::{In, Out};

/// The type of an element, in acl's numbering.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataType(pub(crate) i32);

/// A value, wide enough for every type that is computed with.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Integer(i64),
    Real(f64),
}

impl Number {
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Real(value) => value,
        }
    }

    fn integer(self) -> i64 {
        match self {
            Self::Integer(value) => value,
            Self::Real(value) => value as i64,
        }
    }

    /// `self + factor * other`; stays an integer if all three are.
    pub(crate) fn plus(self, other: Self, factor: Self) -> Self {
        match (self, other, factor) {
            (Self::Integer(a), Self::Integer(b), Self::Integer(f)) => Self::Integer(a.wrapping_add(b.wrapping_mul(f))),
            _ => Self::Real(self.real() + factor.real() * other.real()),
        }
    }
}

fn load<T: Copy>(address: usize) -> Option<T> {
    In::from(address as *const T).get()
}

fn store<T>(address: usize, value: T) -> bool {
    Out::from(address as *mut T).set(value)
}

impl DataType {
    /// Bytes of one element; `None` for types nothing is known about.
    pub(crate) fn bytes(self) -> Option<usize> {
        match self.0 {
            2 | 4 | 12 => Some(1),
            1 | 6 | 7 | 27 => Some(2),
            0 | 3 | 8 => Some(4),
            9..=11 | 16 => Some(8),
            17 => Some(16),
            _ => None,
        }
    }

    pub(crate) fn read(self, address: usize) -> Option<Number> {
        Some(match self.0 {
            0 => Number::Real(f64::from(load::<f32>(address)?)),
            1 => Number::Real(half_to_f64(load(address)?)),
            2 => Number::Integer(i64::from(load::<i8>(address)?)),
            3 => Number::Integer(i64::from(load::<i32>(address)?)),
            4 | 12 => Number::Integer(i64::from(load::<u8>(address)?)),
            6 => Number::Integer(i64::from(load::<i16>(address)?)),
            7 => Number::Integer(i64::from(load::<u16>(address)?)),
            8 => Number::Integer(i64::from(load::<u32>(address)?)),
            9 | 10 => Number::Integer(load::<i64>(address)?),
            11 => Number::Real(load::<f64>(address)?),
            27 => Number::Real(f64::from(f32::from_bits(u32::from(load::<u16>(address)?) << 16))),
            _ => return None,
        })
    }

    pub(crate) fn write(self, address: usize, value: Number) -> bool {
        match self.0 {
            0 => store(address, value.real() as f32),
            1 => store(address, f64_to_half(value.real())),
            2 => store(address, value.integer() as i8),
            3 => store(address, value.integer() as i32),
            4 => store(address, value.integer() as u8),
            6 => store(address, value.integer() as i16),
            7 => store(address, value.integer() as u16),
            8 => store(address, value.integer() as u32),
            9 | 10 => store(address, value.integer()),
            11 => store(address, value.real()),
            12 => store(address, u8::from(value.real() != 0.0)),
            27 => store(address, f32_to_bfloat(value.real() as f32)),
            _ => false,
        }
    }
}

/// Rounds to nearest, ties to even, as the hardware does.
fn f32_to_bfloat(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn half_to_f64(half: u16) -> f64 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
    match exponent {
        0 => sign * mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    }
}

fn f64_to_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if value.is_nan() {
        return sign | 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // In units of the last place: the exponent is the number's own, but not below that of the smallest normal number.
    let exponent = if size < 2f64.powi(-14) { -14 } else { size.log2().floor() as i32 };
    let units = (size * 2f64.powi(10 - exponent)).round_ties_even() as u16;
    // A mantissa that rounds up to the next power of two carries into the exponent, which is what it should do.
    sign | ((((exponent + 14) as u16) << 10) + units)
}
