include(GNUInstallDirs)
# Chooses the file for SentencePiece. A shared library of ours is linked with it, because the program must not be (see
# src/data/sentencepiece/module.h). Sanitizers do not allow the way in which the program opens this library.
find_path(TRIREME_SENTENCEPIECE_HEADERS sentencepiece_trainer.h)
find_library(TRIREME_SENTENCEPIECE_LIBRARY sentencepiece)
find_library(TRIREME_SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
set(sentencepiece_folder "${PROJECT_SOURCE_DIR}/src/data/sentencepiece")
set(TRIREME_SENTENCEPIECE_LEFT_OUT "${sentencepiece_folder}/module.cpp")
if(TRIREME_SENTENCEPIECE_HEADERS AND TRIREME_SENTENCEPIECE_LIBRARY AND TRIREME_SENTENCEPIECE_TRAIN_LIBRARY AND NOT TRIREME_SANITIZE)
  list(APPEND TRIREME_SENTENCEPIECE_LEFT_OUT "${sentencepiece_folder}/no_sentencepiece.cpp")
  add_library(trireme_sentencepiece MODULE "${sentencepiece_folder}/module.cpp")
  target_include_directories(trireme_sentencepiece SYSTEM PRIVATE "${TRIREME_SENTENCEPIECE_HEADERS}")
  target_link_libraries(trireme_sentencepiece PRIVATE trireme_options "${TRIREME_SENTENCEPIECE_LIBRARY}"
                        "${TRIREME_SENTENCEPIECE_TRAIN_LIBRARY}")
  set_target_properties(trireme_sentencepiece PROPERTIES CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_source_files_properties("${sentencepiece_folder}/sentencepiece.cpp" PROPERTIES
                              COMPILE_DEFINITIONS "TRIREME_SENTENCEPIECE_MODULE=\"$<TARGET_FILE:trireme_sentencepiece>\";TRIREME_MODULE_FOLDER=\"${CMAKE_INSTALL_LIBDIR}/trireme\"")
else()
  list(APPEND TRIREME_SENTENCEPIECE_LEFT_OUT "${sentencepiece_folder}/sentencepiece.cpp")
  if(NOT TRIREME_SANITIZE)
    message(STATUS "No SentencePiece: the library was not found (Debian: apt-get install libsentencepiece-dev)")
  endif()
endif()
