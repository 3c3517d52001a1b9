# cmake -DINPUT=file -DOUTPUT=file.cpp -DSYMBOL=name -P Embed.cmake: writes a text file as a C++ string.
file(READ "${INPUT}" content)
string(FIND "${content}" ")~trireme~\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${INPUT}: contains the delimiter of the string that is to hold it")
endif()
file(WRITE "${OUTPUT}" "#include <string_view>\n\nnamespace trireme::assets {\nextern const std::string_view ${SYMBOL};\n"
     "const std::string_view ${SYMBOL} = R\"~trireme~(" "${content}" ")~trireme~\";\n}  // namespace trireme::assets\n")
