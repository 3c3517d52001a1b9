// The program that a shell starts as `trireme`. It prints help pages, which were written when the program was built,
// and hands every other command to the program beside it. That program loads libtorch, which takes half a second; this
// one links nothing but the standard library.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace {

constexpr int kNotStarted = 127;  // as a shell's exit code
constexpr int kNotWritten = 1;    // kRunFailed of exit_codes.h, which this program does not include

bool is_plain_word(const std::string& word) {
  return !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == word.npos && word[0] != '-';
}

/// Returns the pages for a help command, in order of preference; empty for any other command. Examples: "verb plan
/// best" for "help plan best" and "plan best --help", "list models" for "help models".
std::vector<std::string> pages_for(std::vector<std::string> words) {
  if (words == std::vector<std::string>{"--version"}) return {"version"};
  const bool is_help = !words.empty() && words.front() == "help";
  if (is_help) words.erase(words.begin());
  else if (!words.empty() && (words.back() == "--help" || words.back() == "-h")) words.pop_back();
  else if (!words.empty()) return {};
  if (words.empty()) return {"program"};
  std::string name;
  for (const std::string& word : words) {
    if (!is_plain_word(word)) return {};
    name += " " + word;
  }
  if (is_help) return {"list" + name, "verb" + name};
  return {"verb" + name};
}

/// Prints a page. Returns the exit code; nullopt: there is no such page.
std::optional<int> print_page(const std::filesystem::path& file) {
  std::ifstream page(file, std::ios::binary);
  if (!page) return std::nullopt;
  errno = 0;
  std::cout << page.rdbuf() << std::flush;
  if (std::cout) return 0;
  std::cerr << "trireme: standard output: cannot be written: " << std::generic_category().message(errno)
            << "; free some space or write to a file on another disk\n";
  return kNotWritten;
}

/// Returns the folder of the program proper and its pages: beside this one in a build folder, in the folder of
/// libraries where it is installed.
std::filesystem::path folder_of_program() {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path built = here / TRIREME_PROGRAM_FOLDER;
  return std::filesystem::exists(built / "trireme") ? built : here / TRIREME_INSTALLED_FOLDER;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = folder_of_program();
  for (const std::string& page : pages_for({argv + 1, argv + argc}))
    if (const std::optional<int> code = print_page(folder / "help" / page)) return *code;
  const std::string program = folder / "trireme";
  ::execv(program.c_str(), argv);
  std::cerr << "trireme: " << program << ": cannot be started: " << std::generic_category().message(errno)
            << "; build or install Trireme again\n";
  return kNotStarted;
}
