//! Captured streams, and running what was captured.

use sim_boundary::Out;

use crate::runtime::{
    OK, Status, rtModelDestroy, rtModelExecute, rtStreamBeginCapture, rtStreamEndCapture, rtStreamGetCaptureInfo,
    rtStreamSynchronize, rtThreadExchangeCaptureMode,
};

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureBeginImpl(stream: usize, mode: u32) -> Status {
    rtStreamBeginCapture(stream, mode)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureEndImpl(stream: usize, model: Out<usize>) -> Status {
    rtStreamEndCapture(stream, model.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureGetInfoImpl(stream: usize, status: Out<u32>, model: Out<usize>) -> Status {
    rtStreamGetCaptureInfo(stream, status.pointer(), model.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureThreadExchangeModeImpl(mode: Out<u32>) -> Status {
    rtThreadExchangeCaptureMode(mode.pointer())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIExecuteAsyncImpl(model: usize, stream: usize) -> Status {
    rtModelExecute(model, stream, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIExecuteImpl(model: usize, _timeout: i32) -> Status {
    match rtModelExecute(model, 0, 0) {
        OK => rtStreamSynchronize(0),
        refused => refused,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIDestroyImpl(model: usize) -> Status {
    rtModelDestroy(model)
}
