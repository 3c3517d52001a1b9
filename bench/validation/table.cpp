#include "validation/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace trireme::validation {
namespace {

constexpr const char* kTitle = "# Validation: published measurements beside predictions";
constexpr const char* kIntroduction[] = {
    "This page compares published measurements of training speed and memory with the predictions of the simulator "
    "([simulation.md](simulation.md)). It is for readers who want to know how far predictions can be trusted. It is "
    "written by "
    "`bench/validation.sh`; do not edit.",
    "The simulator compiles the published plan to the program that a run would execute, and executes it on a simulated "
    "clock. The costs "
    "come from the published machine's cluster file ([clusters.md](clusters.md)) or from published seconds per layer. "
    "Each table names what is calibrated: mostly nothing or one number, in two tables two, on rows that are marked or "
    "on measurements published elsewhere. Everything else is predicted, nothing is tuned per row, and rows that differ "
    "from the publication are shown as they are.",
    "Predictions do not order plans well enough in all tables: Kendall's tau (a rank correlation) is 0.66 to 0.88, and "
    "the aim is 0.85. In one of the tables of layouts the plan that is predicted to be the fastest is 4.5 % slower "
    "than the fastest, and the aim is 2 %.",
    "`bench/validation.sh --check` fails if the error of a row exceeds its limit (the greatest relative error; for "
    "shares of time the greatest difference), or if a statement under a table is not true. Absolute speeds of machines "
    "that are known only from a datasheet are off by tens of per cent ([clusters.md](clusters.md)). The purpose of "
    "this "
    "page is to compare ratios between plans on one machine.",
    "Not here yet: torchtitan's measurements, which wait for recompute operator by operator and for float8; "
    "DeepSpeed-Ulysses, OPT and BLOOM, which were not compared."};

/// Wraps text into lines of at most 120 bytes if words allow it; all but the first begin with `indent`. No line begins
/// with the mark of a list.
std::string wrapped(std::string_view text, std::string_view indent = "") {
  constexpr size_t kWidth = 120;
  std::string lines;
  size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const bool is_mark = word == "-" || word == "+" || word == "*";
    if (column > 0 && column + 1 + word.size() > kWidth && !is_mark) {
      lines += "\n";
      lines += indent;
      column = indent.size();
    } else if (column > 0) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

std::string error_of(const Row& row) {
  if (row.predicted && row.is_share) return fmt::format("{:+.4f}", row.error());
  return row.predicted && row.published != 0 ? fmt::format("{:+.1f} %", 100 * row.error()) : "";
}

std::string limit_text(const Row& row) {
  if (row.is_calibrated) return "calibrated";
  if (!row.limit) return "";
  const std::string limit =
      row.is_share ? fmt::format("{:.3g}", *row.limit) : fmt::format("{:.3g} %", 100 * *row.limit);
  return limit + (row.holds() ? "" : " **exceeded**");
}

std::string text_of(const Table& table) {
  std::string text = fmt::format("\n## {}\n\n{}\n", table.title, wrapped(table.source + ". " + table.quantity + "."));
  text += wrapped("- Simulated: " + table.setup, "  ") + wrapped("- Calibrated: " + table.calibrated, "  ") + "\n";
  text += "| | published | predicted | error | limit | |\n|---|---|---|---|---|---|\n";
  for (const Row& row : table.rows)
    text += fmt::format("| {} | {:.{}f} | {} | {} | {} | {} |\n", row.what, row.published, table.decimals,
                        row.predicted ? fmt::format("{:.{}f}", *row.predicted, table.decimals) : "–", error_of(row),
                        limit_text(row), row.note);
  if (!table.claims.empty()) text += "\n";
  for (const Claim& claim : table.claims)
    text += wrapped(fmt::format("- {}: {}", claim.what, claim.holds ? "holds" : "**does not hold**"), "  ");
  if (!table.remarks.empty()) text += "\n" + wrapped(table.remarks);
  return text;
}

}  // namespace

bool Table::holds() const {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.holds(); }) &&
         std::all_of(claims.begin(), claims.end(), [](const Claim& claim) { return claim.holds; });
}

void Table::claim(std::string what, bool is_true) {
  Claim& added = claims.emplace_back();
  added.what = std::move(what);
  added.holds = is_true;
}

std::string page(const std::vector<Table>& tables) {
  std::string text = fmt::format("{}\n", kTitle);
  for (const char* paragraph : kIntroduction) text += "\n" + wrapped(paragraph);
  for (const Table& table : tables) text += text_of(table);
  return text;
}

std::vector<std::string> broken(const std::vector<Table>& tables) {
  std::vector<std::string> lines;
  for (const Table& table : tables) {
    for (const Row& row : table.rows)
      if (!row.holds())
        lines.push_back(fmt::format("{}: {}: published {:.4g}, predicted {}, limit {}", table.title, row.what,
                                    row.published, row.predicted ? fmt::format("{:.4g}", *row.predicted) : "nothing",
                                    limit_text(row)));
    for (const Claim& claim : table.claims)
      if (!claim.holds) lines.push_back(fmt::format("{}: does not hold: {}", table.title, claim.what));
  }
  return lines;
}

}  // namespace trireme::validation
