# Chooses the files of the mpi backend: those that call MPI, if there is an MPI, otherwise one that reports that MPI is missing. MPI's C++ bindings,
# which some have, are not used.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
set(mpi_folder "${PROJECT_SOURCE_DIR}/src/comm/mpi")
set(mpi_sources "${mpi_folder}/mpi_engine.cpp" "${mpi_folder}/mpi_keys.cpp" "${mpi_folder}/mpi_transport.cpp")
if(MPI_CXX_FOUND)
  set(TRIREME_MPI_LEFT_OUT "${mpi_folder}/no_mpi.cpp")
  set(TRIREME_MPI_LINKED $<LINK_ONLY:MPI::MPI_CXX>)  # with MPI's compile options the precompiled header could not be used
  set_source_files_properties(${mpi_sources} PROPERTIES INCLUDE_DIRECTORIES "${MPI_CXX_INCLUDE_DIRS}"
                              COMPILE_DEFINITIONS "OMPI_SKIP_MPICXX;MPICH_SKIP_MPICXX")
else()
  message(STATUS "No mpi backend: no MPI was found (Debian: apt-get install libopenmpi-dev)")
  set(TRIREME_MPI_LEFT_OUT ${mpi_sources})
endif()
