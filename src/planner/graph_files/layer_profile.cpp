#include "planner/graph_files/layer_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/json_file.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::string_view kSeparator = " -- ";
constexpr double kSecondsPerMillisecond = 1e-3;
constexpr size_t kQuoted = 60;  // characters of a line that an error quotes

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::string shortened(std::string_view text) {
  std::string shown(text.substr(0, kQuoted));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; },
      '?');  // for binary files
  return text.size() > kQuoted ? shown + "..." : shown;
}

/// Reads line by line, and counts lines for errors.
class ProfileParser {
 public:
  explicit ProfileParser(const std::string& where) : where_(where) {}

  LayerGraph parse(std::string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      ++line_;
      read_line(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (graph_.layers.empty())
      fail_user({where_, "", "has no nodes", "write lines like \"node1 -- Linear -- forward_compute_time=1.0, ...\""});
    graph_.edges = make_dag(int(graph_.layers.size()), edges_);
    check_no_cycle();
    return std::move(graph_);
  }

 private:
  void read_line(std::string_view line) {
    if (trimmed(line).empty()) return;
    line_text_ = trimmed(line);
    if (line.front() == '\t') read_edge(line_text_);
    else read_node(line_text_);
  }

  void read_node(std::string_view line) {
    // A description may contain anything except the separator.
    const size_t first = line.find(kSeparator);
    const size_t second = first == line.npos ? line.npos : line.find(kSeparator, first + kSeparator.size());
    if (second == line.npos)
      fail("neither a node (\"name -- description -- numbers\") nor an edge (a tab, then \"name -- name\")");
    LayerProfile layer;
    layer.name = line.substr(0, first);
    layer.description = line.substr(first + kSeparator.size(), second - first - kSeparator.size());
    std::string_view numbers = line.substr(second + kSeparator.size());
    numbers = numbers.substr(0, numbers.find(kSeparator));  // the stage's number may follow
    layer.forward = field(numbers, "forward_compute_time") * kSecondsPerMillisecond;
    layer.backward = field(numbers, "backward_compute_time") * kSecondsPerMillisecond;
    layer.activation_bytes = field(numbers, "activation_size");
    layer.parameter_bytes = field(numbers, "parameter_size");
    if (!by_name_.emplace(layer.name, int(graph_.layers.size())).second)
      fail(fmt::format("there are two nodes {}", layer.name));
    graph_.layers.push_back(std::move(layer));
  }

  void read_edge(std::string_view line) {
    const size_t middle = line.find(kSeparator);
    if (middle == line.npos) fail("an edge must have the form \"name -- name\"");
    edges_.push_back({node(line.substr(0, middle)), node(line.substr(middle + kSeparator.size()))});
  }

  int node(std::string_view name) {
    const auto found = by_name_.find(std::string(name));
    if (found == by_name_.end()) fail(fmt::format("no line before it defines a node \"{}\"", name));
    return found->second;
  }

  double field(std::string_view numbers, std::string_view key) {
    const std::string start = fmt::format("{}=", key);
    const size_t at = numbers.find(start);
    if (at == numbers.npos) fail(fmt::format("{} is missing", key));
    std::string_view value = numbers.substr(at + start.size());
    value = trimmed(value.substr(0, value.find(',')));
    if (value.empty() || value.front() != '[') return number(value, key);
    if (value.back() != ']') fail(fmt::format("{}: the list is not closed", key));
    double sum = 0;
    for (value = value.substr(1, value.size() - 2);;) {
      const size_t end = value.find(';');
      sum += number(trimmed(value.substr(0, end)), key);
      if (end == value.npos) return sum;
      value.remove_prefix(end + 1);
    }
  }

  double number(std::string_view text, std::string_view key) {
    const std::optional<double> value = number_in<double>(text);
    if (!value || !(*value >= 0 && *value <= kLargestNumber))
      fail(fmt::format("{} is \"{}\", not a number from 0 to {:g}", key, shortened(text), kLargestNumber));
    return *value;
  }

  void check_no_cycle() {
    const std::vector<int> cycle = find_cycle(graph_.edges);
    if (cycle.empty()) return;
    std::vector<std::string> names;
    for (int v : cycle) names.push_back(graph_.layers[size_t(v)].name);
    names.push_back(names.front());
    fail_user(
        {where_, join(names, " -> "), "is a cycle", "a graph of layers must be acyclic: remove one of these edges"});
  }

  [[noreturn]] void fail(const std::string& why) {
    fail_user({fmt::format("{}:{}", where_, line_), fmt::format("\"{}\"", shortened(line_text_)), why, ""});
  }

  const std::string where_;
  int line_ = 0;
  std::string_view line_text_;
  LayerGraph graph_;
  std::unordered_map<std::string, int> by_name_;
  std::vector<std::pair<int, int>> edges_;
};

}  // namespace

LayerGraph parse_layer_graph(std::string_view text, const std::string& where) {
  return ProfileParser(where).parse(text);
}

LayerGraph read_layer_graph(const std::filesystem::path& file) {
  return parse_layer_graph(read_file(file), file.string());
}

}  // namespace trireme
