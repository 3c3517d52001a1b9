#include "base/config/unknown_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace trireme {
namespace {

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }  // npos + 1 is 0
std::string table_of(const std::string& path) { return path.substr(0, path.size() - last_name(path).size()); }

/// "lr" for "optimizer.learning_rate".
std::string initials_of(const std::string& path) {
  std::string initials;
  bool begins = true;
  for (const char c : last_name(path)) {
    if (begins) initials += c;
    begins = c == '_';
  }
  return initials;
}

/// Returns the known key that `path` probably means, or "" if there is none. Never returns a table.
std::string nearest_key(const std::string& path, const std::set<std::string>& known) {
  std::vector<std::string> keys, names_there;
  std::string in_other_table, abbreviated;
  for (const std::string& candidate : known) {
    const auto after = known.lower_bound(candidate + ".");
    if (after != known.end() && after->starts_with(candidate + ".")) continue;  // a table
    keys.push_back(candidate);
    const bool is_nearer =
        in_other_table.empty() || edit_distance(candidate, path) < edit_distance(in_other_table, path);
    if (last_name(candidate) == last_name(path) && is_nearer) in_other_table = candidate;
    if (table_of(candidate) != table_of(path)) continue;
    names_there.push_back(last_name(candidate));
    if (initials_of(candidate) == last_name(path)) abbreviated = candidate;
  }
  if (!in_other_table.empty()) return in_other_table;
  if (const std::string near = closest_match(last_name(path), names_there); !near.empty()) return table_of(path) + near;
  if (!abbreviated.empty()) return abbreviated;
  if (const std::string near = names_there.empty() ? closest_match(path, keys) : ""; !near.empty()) return near;
  // misspelt, and below the header of the wrong table
  std::vector<std::string> names;
  for (const std::string& candidate : keys) names.push_back(last_name(candidate));
  const std::string name = closest_match(last_name(path), names);
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? "" : keys[size_t(found - names.begin())];
}

}  // namespace

std::string advice_on_unknown_key(const std::string& path, const std::set<std::string>& known, bool in_file) {
  const std::string near = nearest_key(path, known);
  if (near.empty()) return "remove it";
  std::string text = fmt::format("did you mean \"{}\"?", near);
  const std::string table = table_of(path);
  if (in_file && !table.empty() && table_of(near).empty())
    text += fmt::format(" Lines below [{}] are keys of that table", table.substr(0, table.size() - 1));
  return text;
}

}  // namespace trireme
