# Writes OUTPUT if its content changes. SOURCE: the project's folder; VERSION: its version number.
cmake_minimum_required(VERSION 3.25)
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND ${GIT} describe --always --dirty --exclude=* WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "// Written by the build.
#pragma once

namespace trireme {

inline constexpr const char* kVersion = \"${VERSION}\";
inline constexpr const char* kCommit = \"${commit}\";

}  // namespace trireme
")
