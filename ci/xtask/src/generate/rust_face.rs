//! What the crate `weft` has in place of a function of MPI, for the page of what works. Chapters whose Rust
//! face is not listed here get no column for it.

/// The function, and the item of `weft` that does the same: a method as `Type::method`, an operator, a trait.
pub const FACE: &[(&str, &str)] = &[
    ("MPI_Accumulate", "Window::accumulate"),
    ("MPI_Accumulate_c", "Window::accumulate"),
    ("MPI_Comm_compare", "Communicator::compare"),
    ("MPI_Comm_create", "Communicator::create"),
    ("MPI_Comm_create_from_group", "Process::communicator_of"),
    ("MPI_Comm_create_group", "Communicator::create_group"),
    ("MPI_Comm_create_keyval", "Key::new"),
    ("MPI_Comm_delete_attr", "Communicator::take_attribute"),
    ("MPI_Comm_dup", "Communicator::duplicate"),
    ("MPI_Comm_dup_with_info", "Communicator::duplicate"),
    ("MPI_Comm_free", "Drop"),
    ("MPI_Comm_free_keyval", "Drop"),
    ("MPI_Comm_get_attr", "Communicator::attribute"),
    ("MPI_Comm_get_name", "Communicator::name"),
    ("MPI_Comm_group", "Communicator::group"),
    ("MPI_Comm_idup", "Communicator::start_duplicate"),
    ("MPI_Comm_idup_with_info", "Communicator::start_duplicate"),
    ("MPI_Comm_rank", "Communicator::rank"),
    ("MPI_Comm_remote_group", "Intercommunicator::remote"),
    ("MPI_Comm_remote_size", "Group::size"),
    ("MPI_Comm_set_attr", "Communicator::set_attribute"),
    ("MPI_Comm_set_name", "Communicator::rename"),
    ("MPI_Comm_size", "Communicator::size"),
    ("MPI_Comm_split", "Communicator::split"),
    ("MPI_Comm_split_type", "Communicator::split_by"),
    ("MPI_Comm_test_inter", "Communicator::is_inter"),
    ("MPI_Compare_and_swap", "Window::compare_and_swap"),
    ("MPI_Fetch_and_op", "Window::get_accumulate"),
    ("MPI_Get", "Window::get"),
    ("MPI_Get_accumulate", "Window::get_accumulate"),
    ("MPI_Get_accumulate_c", "Window::get_accumulate"),
    ("MPI_Get_c", "Window::get"),
    ("MPI_Group_compare", "Group::compare"),
    ("MPI_Group_difference", "Group::difference"),
    ("MPI_Group_excl", "Group::exclude"),
    ("MPI_Group_free", "Drop"),
    ("MPI_Group_from_session_pset", "Session::group"),
    ("MPI_Group_incl", "Group::include"),
    ("MPI_Group_intersection", "Group::intersection"),
    ("MPI_Group_range_excl", "Group::exclude_ranges"),
    ("MPI_Group_range_incl", "Group::include_ranges"),
    ("MPI_Group_rank", "Group::rank"),
    ("MPI_Group_size", "Group::size"),
    ("MPI_Group_translate_ranks", "Group::translate"),
    ("MPI_Group_union", "Group::union"),
    ("MPI_Intercomm_create", "Intercommunicator::connect"),
    ("MPI_Intercomm_create_from_groups", "Process::connect"),
    ("MPI_Intercomm_merge", "Intercommunicator::merge"),
    ("MPI_Put", "Window::put"),
    ("MPI_Put_c", "Window::put"),
    ("MPI_Raccumulate", "Window::accumulate"),
    ("MPI_Raccumulate_c", "Window::accumulate"),
    ("MPI_Rget", "Window::get"),
    ("MPI_Rget_accumulate", "Window::get_accumulate"),
    ("MPI_Rget_accumulate_c", "Window::get_accumulate"),
    ("MPI_Rget_c", "Window::get"),
    ("MPI_Rput", "Window::put"),
    ("MPI_Rput_c", "Window::put"),
    ("MPI_Session_finalize", "Session::finish"),
    ("MPI_Session_get_nth_pset", "ProcessSets::iter"),
    ("MPI_Session_get_num_psets", "ProcessSets::len"),
    ("MPI_Session_get_pset_info", "ProcessSet::group"),
    ("MPI_Session_init", "Session::another"),
    ("MPI_Win_allocate", "Window::allocate"),
    ("MPI_Win_allocate_c", "Window::allocate"),
    ("MPI_Win_allocate_shared", "SharedWindow::allocate"),
    ("MPI_Win_allocate_shared_c", "SharedWindow::allocate"),
    ("MPI_Win_attach", "Window::attach"),
    ("MPI_Win_complete", "Window::complete"),
    ("MPI_Win_create", "Window::create"),
    ("MPI_Win_create_c", "Window::create"),
    ("MPI_Win_create_dynamic", "Window::create_dynamic"),
    ("MPI_Win_create_keyval", "Key::new"),
    ("MPI_Win_delete_attr", "Window::take_attribute"),
    ("MPI_Win_detach", "Window::detach"),
    ("MPI_Win_fence", "Window::fence"),
    ("MPI_Win_flush", "Window::flush"),
    ("MPI_Win_flush_all", "Window::flush"),
    ("MPI_Win_flush_local", "Window::flush_local"),
    ("MPI_Win_flush_local_all", "Window::flush_local"),
    ("MPI_Win_free", "Window::free"),
    ("MPI_Win_free_keyval", "Drop"),
    ("MPI_Win_get_attr", "Window::attribute"),
    ("MPI_Win_get_group", "Window::group"),
    ("MPI_Win_get_name", "Window::name"),
    ("MPI_Win_lock", "Window::lock"),
    ("MPI_Win_lock_all", "Window::lock_all"),
    ("MPI_Win_post", "Window::post"),
    ("MPI_Win_set_attr", "Window::set_attribute"),
    ("MPI_Win_set_name", "Window::rename"),
    ("MPI_Win_shared_query", "SharedWindow::part"),
    ("MPI_Win_shared_query_c", "SharedWindow::part"),
    ("MPI_Win_start", "Window::start"),
    ("MPI_Win_sync", "Window::sync"),
    ("MPI_Win_test", "Window::test"),
    ("MPI_Win_unlock", "Window::unlock"),
    ("MPI_Win_unlock_all", "Window::unlock_all"),
    ("MPI_Win_wait", "Window::wait"),
];

/// The item of the Rust interface that does what the MPI function does.
pub fn of(function: &str) -> Option<&'static str> {
    FACE.iter().find(|(name, _)| *name == function).map(|(_, item)| *item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn sources(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, text),
                path => text.push_str(&fs::read_to_string(path).unwrap()),
            }
        }
    }

    #[test]
    fn every_item_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut text = String::new();
        sources(&root.join("crates/weft/src"), &mut text);
        for (function, item) in FACE {
            let Some((of, method)) = item.split_once("::") else { continue };
            assert!(text.contains(&format!("pub struct {of}")), "{item} for {function}: no such type");
            let there = [format!("pub fn {method}("), format!("pub fn {method}<")];
            assert!(there.iter().any(|line| text.contains(line)), "{item} for {function}: no such method");
        }
    }

    #[test]
    fn functions_are_those_of_mpi_and_stand_once() {
        let table = include_str!("../../../../crates/abi/tables/functions.csv");
        for (at, (function, _)) in FACE.iter().enumerate() {
            assert!(table.contains(&format!("{function},")), "{function} is no function of MPI");
            assert!(FACE[..at].iter().all(|(earlier, _)| earlier != function), "{function} stands twice");
        }
    }
}
