# A room is a folder of src/ built as one static library. A room includes only rooms earlier in the list of
# src/CMakeLists.txt: the link order and tests/structure_test.py enforce it.

add_library(trireme_options INTERFACE)
target_compile_features(trireme_options INTERFACE cxx_std_20)
if(PROJECT_IS_TOP_LEVEL)  # a parent project sets its own warnings
  target_compile_options(trireme_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
endif()
target_include_directories(trireme_options INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
# One set of objects makes the program, libtrireme.a and libtrireme.so. The second flag lets the compiler inline across functions of the
# shared library as it does in a program.
target_compile_options(trireme_options INTERFACE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
# g++ collects garbage only above 1.5 GB, which few files reach: this saves a tenth of the time and takes a sixth more memory.
target_compile_options(trireme_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1500000>)
if(TRIREME_UNITY)  # no warning for members whose type is local to a file: the class is local to it too
  target_compile_options(trireme_options INTERFACE -Wno-subobject-linkage)
endif()
# These stay warnings: g++ 12's optimiser gives them wrongly for code in the standard library, depending on what it inlines.
if(TRIREME_WERROR AND PROJECT_IS_TOP_LEVEL)
  target_compile_options(trireme_options INTERFACE -Werror)
  foreach(warning stringop-overflow stringop-overread restrict array-bounds maybe-uninitialized)
    target_compile_options(trireme_options INTERFACE -Wno-error=${warning})
  endforeach()
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

# For code whose speed does not matter: compiles in half the time of -O3. With -Og g++ 12 wrongly takes std::regex's states for uninitialized.
set(TRIREME_QUICKLY_COMPILED $<$<CONFIG:Release>:-Og> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
# Newer versions of g++ set these options by optimisation level, and refuse a precompiled header with another setting.
include(CheckCXXCompilerFlag)
foreach(option unroll-only-small-loops vzeroupper)
  string(MAKE_C_IDENTIFIER "TRIREME_HAS_${option}" known)
  check_cxx_compiler_flag(-m${option} ${known})
  if(${known})
    list(APPEND TRIREME_QUICKLY_COMPILED $<$<CONFIG:Release>:-m${option}>)
  endif()
endforeach()

include(Precompiled)

# trireme_room(name [COORDINATES] [DEPENDS room...] [LIBRARIES target...] [BATCH n]): a room of all .cpp files below src/<name>, compiled n at a time
# (1: each alone, for a room whose files use the same names for the same things). COORDINATES: the room reads, prints, or decides for other rooms what
# to compute; it is compiled quickly (TRIREME_QUICKLY_COMPILED).
function(trireme_room name)
  cmake_parse_arguments(ROOM "COORDINATES" "BATCH" "DEPENDS;LIBRARIES;EXCLUDE" ${ARGN})
  if(NOT ROOM_BATCH)
    set(ROOM_BATCH 10)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  list(REMOVE_ITEM sources ${ROOM_EXCLUDE})
  add_library(trireme_${name} STATIC)
  target_link_libraries(trireme_${name} PUBLIC trireme_options trireme_torch fmt::fmt nlohmann_json::nlohmann_json
                        ${ROOM_LIBRARIES})
  foreach(room ${ROOM_DEPENDS})
    target_link_libraries(trireme_${name} PUBLIC trireme_${room})
  endforeach()
  if(ROOM_COORDINATES)
    target_compile_options(trireme_${name} PRIVATE ${TRIREME_QUICKLY_COMPILED})
  endif()
  trireme_compiled(trireme_${name} pch BATCH ${ROOM_BATCH} SOURCES ${sources})
endfunction()

# trireme_tool(name FOLDER folder SOURCES file... LIBRARIES target...): a program beside `trireme`, in <build>/<folder>.
function(trireme_tool name)
  cmake_parse_arguments(T "" "FOLDER" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES})
  trireme_compiled(${name} pch BATCH 1 SOURCES ${T_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${T_FOLDER}")
endfunction()

# trireme_program(name SOURCES file... ROOMS room... [LIBRARIES target...]): one GoogleTest executable; it may bring its own main.
function(trireme_program name)
  cmake_parse_arguments(T "" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_executable(${name})
  # The code of a test runs for milliseconds; most time goes into compiling it.
  target_compile_options(${name} PRIVATE ${TRIREME_QUICKLY_COMPILED})
  target_link_libraries(${name} PRIVATE trireme_options GTest::gtest_main GTest::gmock ${T_LIBRARIES})
  foreach(room ${T_ROOMS})
    target_link_libraries(${name} PRIVATE trireme_${room})
  endforeach()
  target_link_libraries(${name} PRIVATE trireme_torch fmt::fmt nlohmann_json::nlohmann_json)
  trireme_compiled(${name} test_pch GROUPS 10 SOURCES ${T_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

# trireme_test(name LABEL unit [TIMEOUT seconds] ...): a trireme_program that is registered with CTest as one test.
function(trireme_test name)
  cmake_parse_arguments(T "" "LABEL;TIMEOUT" "" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  trireme_program(${name} ${T_UNPARSED_ARGUMENTS})
  add_test(NAME ${name} COMMAND ${name})
  # On a machine that has never run them, long tests begin first: short ones fill the gaps at the end.
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT} COST ${T_TIMEOUT})
endfunction()
