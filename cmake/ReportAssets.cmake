# Inputs of the report room besides its sources: TensorBoard's messages compiled from .proto, and the parts of the HTML report (template, style,
# script, Chart.js) embedded in the library, so that the program needs no other files to write reports.

find_file(TRIREME_CHART_JS chart.min.js
          PATHS /usr/share/javascript/chart.js /usr/local/share/javascript/chart.js
          DOC "Chart.js 3, minified: the HTML report's charts")
if(NOT TRIREME_CHART_JS)
  message(FATAL_ERROR "Trireme needs Chart.js 3 for its HTML report, which was not found. On Debian or Ubuntu: "
          "apt-get install libjs-chart.js (./run does this for you). Elsewhere: download chart.min.js of Chart.js 3.9 "
          "and name it with -DTRIREME_CHART_JS=FILE.")
endif()

# trireme_embed(target symbol file): `extern const std::string_view <symbol>` in trireme::assets holds the file's text.
function(trireme_embed target symbol file)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${output} -DSYMBOL=${symbol} -P "${PROJECT_SOURCE_DIR}/cmake/Embed.cmake"
    DEPENDS "${file}" "${PROJECT_SOURCE_DIR}/cmake/Embed.cmake"
    COMMENT "Embedding ${symbol}" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
  set_source_files_properties("${output}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(trireme_report_assets target)
  protobuf_generate_cpp(proto_sources proto_headers "${PROJECT_SOURCE_DIR}/src/report/tensorboard_event.proto")
  target_sources(${target} PRIVATE ${proto_sources} ${proto_headers})
  set_source_files_properties(${proto_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(${target} SYSTEM PUBLIC "${CMAKE_CURRENT_BINARY_DIR}")
  trireme_embed(${target} frame_html "${PROJECT_SOURCE_DIR}/src/report/html/frame.html")
  trireme_embed(${target} report_html "${PROJECT_SOURCE_DIR}/src/report/html/report.html")
  trireme_embed(${target} report_css "${PROJECT_SOURCE_DIR}/src/report/html/report.css")
  foreach(script charts palette rows bars curves blocks replicas schedule timeline report)
    trireme_embed(${target} ${script}_js "${PROJECT_SOURCE_DIR}/src/report/html/${script}.js")
  endforeach()
  trireme_embed(${target} chart_js "${TRIREME_CHART_JS}")
endfunction()
