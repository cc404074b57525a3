//! Holds the committed bindings against the headers that are installed: sizes, offsets, constants, and the
//! types of the functions. Says so and passes where there are no headers; `ci/setup` installs them.

use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use pmix_sys::bindings::*;

/// What C must find equal, as `(expression, value)`.
fn expected() -> Vec<(&'static str, i64)> {
    vec![
        ("sizeof(pmix_proc_t)", size_of::<pmix_proc_t>() as i64),
        ("offsetof(pmix_proc_t, rank)", offset_of!(pmix_proc_t, rank) as i64),
        ("sizeof(pmix_value_t)", size_of::<pmix_value_t>() as i64),
        ("_Alignof(pmix_value_t)", align_of::<pmix_value_t>() as i64),
        ("offsetof(pmix_value_t, type)", offset_of!(pmix_value_t, type_) as i64),
        ("offsetof(pmix_value_t, data)", offset_of!(pmix_value_t, data) as i64),
        ("sizeof(pmix_info_t)", size_of::<pmix_info_t>() as i64),
        ("offsetof(pmix_info_t, key)", offset_of!(pmix_info_t, key) as i64),
        ("offsetof(pmix_info_t, flags)", offset_of!(pmix_info_t, flags) as i64),
        ("offsetof(pmix_info_t, value)", offset_of!(pmix_info_t, value) as i64),
        ("sizeof(pmix_byte_object_t)", size_of::<pmix_byte_object_t>() as i64),
        ("offsetof(pmix_byte_object_t, bytes)", offset_of!(pmix_byte_object_t, bytes) as i64),
        ("offsetof(pmix_byte_object_t, size)", offset_of!(pmix_byte_object_t, size) as i64),
        ("sizeof(pmix_scope_t)", size_of::<pmix_scope_t>() as i64),
        ("PMIX_SUCCESS", PMIX_SUCCESS.into()),
        ("PMIX_OPERATION_SUCCEEDED", PMIX_OPERATION_SUCCEEDED.into()),
        ("PMIX_EVENT_ACTION_COMPLETE", PMIX_EVENT_ACTION_COMPLETE.into()),
        ("PMIX_ERR_NOT_FOUND", PMIX_ERR_NOT_FOUND.into()),
        ("PMIX_ERR_LOST_CONNECTION", PMIX_ERR_LOST_CONNECTION.into()),
        ("PMIX_ERR_UNREACH", PMIX_ERR_UNREACH.into()),
        ("PMIX_RANK_WILDCARD", PMIX_RANK_WILDCARD.into()),
        ("PMIX_GLOBAL", PMIX_GLOBAL.into()),
        ("PMIX_MAX_NSLEN", PMIX_MAX_NSLEN.into()),
        ("PMIX_MAX_KEYLEN", PMIX_MAX_KEYLEN.into()),
        ("PMIX_BOOL", PMIX_BOOL.into()),
        ("PMIX_STRING", PMIX_STRING.into()),
        ("PMIX_INT", PMIX_INT.into()),
        ("PMIX_UINT16", PMIX_UINT16.into()),
        ("PMIX_UINT32", PMIX_UINT32.into()),
        ("PMIX_BYTE_OBJECT", PMIX_BYTE_OBJECT.into()),
        ("PMIX_PROC_RANK", PMIX_PROC_RANK.into()),
    ]
}

/// Texts that keys are, with their zero bytes.
fn keys() -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("PMIX_JOB_SIZE", PMIX_JOB_SIZE),
        ("PMIX_APPNUM", PMIX_APPNUM),
        ("PMIX_UNIV_SIZE", PMIX_UNIV_SIZE),
        ("PMIX_COLLECT_DATA", PMIX_COLLECT_DATA),
        ("PMIX_OPTIONAL", PMIX_OPTIONAL),
        ("PMIX_LOCAL_SIZE", PMIX_LOCAL_SIZE),
        ("PMIX_ANL_MAP", PMIX_ANL_MAP),
    ]
}

/// The functions as `bindings.rs` declares them, in C.
const FUNCTIONS: &str = "
pmix_status_t (*f1)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
pmix_status_t (*f2)(const pmix_info_t *, size_t) = PMIx_Finalize;
pmix_status_t (*f3)(int, const char *, pmix_proc_t *, size_t) = PMIx_Abort;
pmix_status_t (*f4)(pmix_scope_t, const char *, pmix_value_t *) = PMIx_Put;
pmix_status_t (*f5)(void) = PMIx_Commit;
pmix_status_t (*f6)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, pmix_op_cbfunc_t,
                    void *) = PMIx_Fence_nb;
pmix_status_t (*f7)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) = PMIx_Get;
pmix_status_t (*f8)(pmix_status_t *, size_t, pmix_info_t *, size_t, pmix_notification_fn_t,
                    pmix_hdlr_reg_cbfunc_t, void *) = PMIx_Register_event_handler;
const char *(*f9)(pmix_status_t) = PMIx_Error_string;
const char *(*f10)(void) = PMIx_Get_version;
";

#[test]
fn the_bindings_are_those_of_the_header() {
    let Some(flags) = Command::new("pkg-config").args(["--cflags", "pmix"]).output().ok() else { return };
    if !flags.status.success() {
        println!("LEFT OUT: there are no headers of PMIx here (libpmix-dev)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("header.c");
    let mut text = format!("#include <stddef.h>\n#include <string.h>\n#include <pmix.h>\n{FUNCTIONS}");
    for (expression, value) in expected() {
        let _ = writeln!(text, "_Static_assert({expression} == {value}, \"{expression}\");");
    }
    for (name, key) in keys() {
        let key = std::str::from_utf8(&key[..key.len() - 1]).unwrap();
        let _ = writeln!(text, "_Static_assert(__builtin_strcmp({name}, \"{key}\") == 0, \"{name}\");");
    }
    std::fs::write(&source, text).unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Werror", "-fsyntax-only"]).args(flags.split_whitespace()).arg(&source);
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
