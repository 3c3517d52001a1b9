#include "base/config/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the position of the first "=" outside quotes; npos if there is none.
size_t end_of_key(std::string_view assignment) {
  char quote = 0;
  for (size_t i = 0; i < assignment.size(); ++i) {
    const char c = assignment[i];
    if (quote != 0 && c == '\\') ++i;
    else if (quote != 0) quote = c == quote ? char(0) : quote;
    else if (c == '"' || c == '\'') quote = c;
    else if (c == '=') return i;
  }
  return assignment.npos;
}

}  // namespace

Assignment read_assignment(std::string_view assignment, const std::string& origin) {
  const size_t equals = end_of_key(assignment);
  const std::string_view written = assignment.substr(0, equals);
  const bool bare = written.find_first_of("\"'") == written.npos, blank = written.find_first_of(" \t") != written.npos;
  std::optional<std::vector<PathPart>> parts = split_path(written);
  const bool has_index =
      parts && std::any_of(parts->begin(), parts->end(), [](const PathPart& part) { return part.index.has_value(); });
  const bool bracket = bare && written.find_first_of("[]") != written.npos;
  if (equals != assignment.npos && parts && !has_index && !bracket && !(bare && blank))
    return {std::move(*parts), assignment.substr(equals + 1)};
  fail_user(
      {.where = origin,
       .what = fmt::format("\"{}\" is not an assignment", assignment),
       .why = bare && blank ? "it must be key=value, where a name with blanks needs quotes" : "it must be key=value",
       .next = bare && blank ? "write for example --set 'data.columns.\"a b\"=\"numeric\"'"
                             : "write for example --set optimizer.learning_rate=0.1"});
}

}  // namespace trireme
