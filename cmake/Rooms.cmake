# A room is a folder of src/ built as one static library. Rooms are listed from the ground floor up; a room may include only
# rooms below it, which the link order and tests/structure_test.py both hold it to.

add_library(trireme_options INTERFACE)
target_compile_features(trireme_options INTERFACE cxx_std_20)
target_compile_options(trireme_options INTERFACE -Wall -Wextra -Wno-unused-parameter)
target_include_directories(trireme_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
if(TRIREME_SANITIZE)
  target_compile_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

include(Precompiled)

# trireme_room(name [DEPENDS room...] [LIBRARIES target...]): sources are all .cpp files below src/<name>.
function(trireme_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LIBRARIES;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  list(REMOVE_ITEM sources ${ROOM_EXCLUDE})
  add_library(trireme_${name} STATIC ${sources})
  target_link_libraries(trireme_${name} PUBLIC trireme_options trireme_torch fmt::fmt nlohmann_json::nlohmann_json
                        ${ROOM_LIBRARIES})
  foreach(room ${ROOM_DEPENDS})
    target_link_libraries(trireme_${name} PUBLIC trireme_${room})
  endforeach()
  trireme_precompiled(trireme_${name} pch)
endfunction()

# trireme_program(name SOURCES file... ROOMS room... [LIBRARIES target...]): one GoogleTest executable; it may bring its own main.
function(trireme_program name)
  cmake_parse_arguments(T "" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  # a test's own code runs for milliseconds; at -O3 compiling it took a third more of CI's time
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE trireme_options GTest::gtest_main GTest::gmock ${T_LIBRARIES})
  foreach(room ${T_ROOMS})
    target_link_libraries(${name} PRIVATE trireme_${room})
  endforeach()
  target_link_libraries(${name} PRIVATE trireme_torch fmt::fmt nlohmann_json::nlohmann_json)
  trireme_precompiled(${name} test_pch)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

# trireme_test(name LABEL unit [TIMEOUT seconds] ...): such a program registered with CTest as one test.
function(trireme_test name)
  cmake_parse_arguments(T "" "LABEL;TIMEOUT" "" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  trireme_program(${name} ${T_UNPARSED_ARGUMENTS})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT})
endfunction()
