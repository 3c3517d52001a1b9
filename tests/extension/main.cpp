// The program `trireme` with the kinds of this folder.
#include <trireme/program.h>

int main(int argc, char** argv) { return trireme::run_program(argc, argv); }
