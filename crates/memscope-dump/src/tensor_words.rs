//! What the type and format codes of tensors are called.
use crate::rows::value;
use memscope_model::{Access, TensorOwner};

/// CANN's element types by code.
const ELEMENTS: [(i32, &str); 27] = [
    (0, "FLOAT"),
    (1, "FLOAT16"),
    (2, "INT8"),
    (3, "INT32"),
    (4, "UINT8"),
    (6, "INT16"),
    (7, "UINT16"),
    (8, "UINT32"),
    (9, "INT64"),
    (10, "UINT64"),
    (11, "DOUBLE"),
    (12, "BOOL"),
    (13, "STRING"),
    (16, "COMPLEX64"),
    (17, "COMPLEX128"),
    (27, "BF16"),
    (29, "INT4"),
    (30, "UINT1"),
    (33, "COMPLEX32"),
    (34, "HIFLOAT8"),
    (35, "FLOAT8_E5M2"),
    (36, "FLOAT8_E4M3FN"),
    (37, "FLOAT8_E8M0"),
    (38, "FLOAT6_E3M2"),
    (39, "FLOAT6_E2M3"),
    (40, "FLOAT4_E2M1"),
    (41, "FLOAT4_E1M2"),
];

/// CANN's memory layouts by code.
const LAYOUTS: [(i32, &str); 14] = [
    (0, "NCHW"),
    (1, "NHWC"),
    (2, "ND"),
    (3, "NC1HWC0"),
    (4, "FRACTAL_Z"),
    (12, "NC1HWC0_C04"),
    (16, "HWCN"),
    (27, "NDHWC"),
    (29, "FRACTAL_NZ"),
    (30, "NCDHW"),
    (32, "NDC1HWC0"),
    (33, "FRACTAL_Z_3D"),
    (35, "NC"),
    (47, "NCL"),
];

/// torch's element types by code (`ScalarType`).
const TORCH_ELEMENTS: [(i32, &str); 46] = [
    (0, "uint8"),
    (1, "int8"),
    (2, "int16"),
    (3, "int32"),
    (4, "int64"),
    (5, "float16"),
    (6, "float32"),
    (7, "float64"),
    (8, "complex32"),
    (9, "complex64"),
    (10, "complex128"),
    (11, "bool"),
    (12, "qint8"),
    (13, "quint8"),
    (14, "qint32"),
    (15, "bfloat16"),
    (16, "quint4x2"),
    (17, "quint2x4"),
    (18, "bits1x8"),
    (19, "bits2x4"),
    (20, "bits4x2"),
    (21, "bits8"),
    (22, "bits16"),
    (23, "float8_e5m2"),
    (24, "float8_e4m3fn"),
    (25, "float8_e5m2fnuz"),
    (26, "float8_e4m3fnuz"),
    (27, "uint16"),
    (28, "uint32"),
    (29, "uint64"),
    (30, "uint1"),
    (31, "uint2"),
    (32, "uint3"),
    (33, "uint4"),
    (34, "uint5"),
    (35, "uint6"),
    (36, "uint7"),
    (37, "int1"),
    (38, "int2"),
    (39, "int3"),
    (40, "int4"),
    (41, "int5"),
    (42, "int6"),
    (43, "int7"),
    (44, "float8_e8m0fnu"),
    (45, "float4_e2m1fn_x2"),
];

/// In a row that does not tell.
const NOT_TOLD: i32 = -1;

fn word_of(words: &[(i32, &'static str)], code: i32) -> Option<&'static str> {
    words.iter().find(|(known, _)| *known == code).map(|(_, word)| *word)
}

fn code_of(words: &[(i32, &'static str)], word: &str) -> i32 {
    words.iter().find(|(_, known)| *known == word).map_or(NOT_TOLD, |(code, _)| *code)
}

const UNDEFINED: &str = "UNDEFINED";

/// What a row says of an accessed tensor.
pub(crate) struct TensorWords {
    /// Who accesses it.
    pub(crate) by: &'static str,
    pub(crate) element_type: String,
    /// torch does not tell.
    pub(crate) format: Option<String>,
    pub(crate) shape: String,
}

impl TensorWords {
    pub(crate) fn of(access: &Access<'_>) -> TensorWords {
        let element_type = type_name(access.owner, access.dtype);
        match access.owner {
            TensorOwner::AtbOperator | TensorOwner::AtbKernel => {
                let format = Some(format_name(access.owner, access.format));
                TensorWords { by: value::BY_ATB, element_type, format, shape: shape_text(access.dimensions) }
            }
            TensorOwner::Aten => TensorWords {
                by: value::BY_ATEN,
                element_type,
                format: None,
                shape: torch_shape_text(access.dimensions),
            },
        }
    }
}

/// The type as ATB spells it for its operators and for its kernels, and torch for its tensors.
fn type_name(owner: TensorOwner, code: i32) -> String {
    match (owner, word_of(&ELEMENTS, code)) {
        (TensorOwner::AtbOperator, Some(element)) => format!("ACL_{element}"),
        (TensorOwner::AtbOperator, None) => format!("ACL_DT_{UNDEFINED}"),
        (TensorOwner::AtbKernel, element) => format!("TENSOR_DTYPE_{}", element.unwrap_or(UNDEFINED)),
        (TensorOwner::Aten, _) => format!("{TORCH}{}", word_of(&TORCH_ELEMENTS, code).unwrap_or("undefined")),
    }
}

fn format_name(owner: TensorOwner, code: i32) -> String {
    match (owner, word_of(&LAYOUTS, code)) {
        // The one layout whose name in ACL lacks the word.
        (TensorOwner::AtbOperator, Some(layout @ "FRACTAL_Z_3D")) => format!("ACL_{layout}"),
        (TensorOwner::AtbKernel, layout) => format!("TENSOR_FORMAT_{}", layout.unwrap_or(UNDEFINED)),
        (_, layout) => format!("ACL_FORMAT_{}", layout.unwrap_or(UNDEFINED)),
    }
}

const TORCH: &str = "torch.";

/// The code of a type of torch.
pub(crate) fn torch_type_code(text: &str) -> (TensorOwner, i32) {
    (TensorOwner::Aten, code_of(&TORCH_ELEMENTS, text.strip_prefix(TORCH).unwrap_or(text)))
}

/// Whose words a type is in, and its code.
pub(crate) fn type_code(text: &str) -> (TensorOwner, i32) {
    match text.strip_prefix("TENSOR_DTYPE_") {
        Some(word) => (TensorOwner::AtbKernel, code_of(&ELEMENTS, word)),
        None => (TensorOwner::AtbOperator, code_of(&ELEMENTS, text.strip_prefix("ACL_").unwrap_or(text))),
    }
}

pub(crate) fn format_code(text: &str) -> i32 {
    let prefixes = ["TENSOR_FORMAT_", "ACL_FORMAT_", "ACL_"];
    let word = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    code_of(&LAYOUTS, word)
}

/// The dimensions of a shape, as ATB or torch spells it.
pub(crate) fn dimensions_of(text: &str) -> Option<Vec<i64>> {
    let list = text.strip_prefix(TORCH_SIZE).and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let inside = list.strip_prefix('[')?.strip_suffix(']')?;
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// `[2,3]`.
fn shape_text(dimensions: &[i64]) -> String {
    format!("[{}]", joined(dimensions, ","))
}

const TORCH_SIZE: &str = "torch.Size(";

/// `torch.Size([2, 3])`.
fn torch_shape_text(dimensions: &[i64]) -> String {
    format!("{TORCH_SIZE}[{}])", joined(dimensions, ", "))
}

fn joined(numbers: &[i64], between: &str) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TensorOwner::{AtbKernel, AtbOperator, Aten};

    #[test]
    fn operators_and_kernels_have_words_of_their_own_for_the_same_codes() {
        assert_eq!(
            (type_name(AtbOperator, 27), type_name(AtbKernel, 27)),
            ("ACL_BF16".into(), "TENSOR_DTYPE_BF16".into())
        );
        let undefined = ("ACL_DT_UNDEFINED".into(), "TENSOR_DTYPE_UNDEFINED".into());
        assert_eq!((type_name(AtbOperator, -1), type_name(AtbKernel, 5)), undefined);
        let nz = ("ACL_FORMAT_FRACTAL_NZ".into(), "TENSOR_FORMAT_FRACTAL_NZ".into());
        assert_eq!((format_name(AtbOperator, 29), format_name(AtbKernel, 29)), nz);
        let odd = ("ACL_FRACTAL_Z_3D".into(), "TENSOR_FORMAT_FRACTAL_Z_3D".into());
        assert_eq!((format_name(AtbOperator, 33), format_name(AtbKernel, 33)), odd);
        let undefined = ("ACL_FORMAT_UNDEFINED".into(), "TENSOR_FORMAT_UNDEFINED".into());
        assert_eq!((format_name(AtbOperator, 99), format_name(AtbKernel, -1)), undefined);
    }

    #[test]
    fn words_lead_back_to_the_codes() {
        for owner in [AtbOperator, AtbKernel] {
            for (code, _) in ELEMENTS {
                assert_eq!(type_code(&type_name(owner, code)), (owner, code));
            }
            for (code, _) in LAYOUTS {
                assert_eq!(format_code(&format_name(owner, code)), code);
            }
            assert_eq!(type_code(&type_name(owner, 5)), (owner, NOT_TOLD));
        }
        assert_eq!(dimensions_of(&shape_text(&[2, -1])), Some(vec![2, -1]));
        for (code, _) in TORCH_ELEMENTS {
            assert_eq!(torch_type_code(&type_name(Aten, code)), (Aten, code));
        }
        assert_eq!(torch_type_code(&type_name(Aten, 46)), (Aten, NOT_TOLD));
        assert_eq!(dimensions_of(&torch_shape_text(&[2, 3])), Some(vec![2, 3]));
        assert_eq!((dimensions_of("[]"), dimensions_of("torch.Size([])")), (Some(vec![]), Some(vec![])));
        assert_eq!((dimensions_of("torch.Size"), dimensions_of("torch.Size([x])")), (None, None));
    }

    #[test]
    fn a_shape_is_a_list_and_that_of_a_scalar_is_empty() {
        assert_eq!((shape_text(&[2, -1, 3]), shape_text(&[])), ("[2,-1,3]".into(), "[]".into()));
        assert_eq!(torch_shape_text(&[2, 3]), "torch.Size([2, 3])");
    }
}
