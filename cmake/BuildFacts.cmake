# library/build_facts.h: version and commit of this build. The commit is read at each build; the header changes only with it.
function(trireme_build_facts target)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/facts/library/build_facts.h")
  add_custom_target(${target}_facts
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
            -P "${PROJECT_SOURCE_DIR}/cmake/WriteBuildFacts.cmake"
    BYPRODUCTS "${output}" VERBATIM)
  add_dependencies(${target} ${target}_facts)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/facts")
endfunction()
