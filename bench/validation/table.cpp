#include "validation/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme::validation {
namespace {

constexpr const char* kHead =
    "# Validation: published measurements beside predictions\n"
    "\n"
    "Written by `bench/validation.sh`; do not edit. The simulator (docs/simulation.md) compiles the published plan to the program that a "
    "run\n"
    "would execute and walks it on a clock, with costs of the published machine's cluster file (docs/clusters.md) or with published "
    "seconds\n"
    "per layer. At most one number is calibrated per table, on the one row that is marked (or on measurements published elsewhere); "
    "everything\n"
    "else is predicted, nothing is tuned per row, and rows that do not come out are shown as they are. `bench/validation.sh --check` "
    "fails\n"
    "where a row leaves its gate (greatest relative error) or a statement under a table is not true. Absolute speeds of machines that one\n"
    "only knows from a datasheet are off by tens of per cent ([clusters.md](clusters.md)); ratios between plans on one machine are what "
    "is\nlooked at.\n";

std::string error_of(const Row& row) {
  return row.predicted && row.published != 0 ? fmt::format("{:+.1f} %", 100 * row.error()) : "";
}

std::string gate_of(const Row& row) {
  if (row.is_calibrated) return "calibrated";
  if (!row.gate) return "";
  return fmt::format("{:.3g} %{}", 100 * *row.gate, row.holds() ? "" : " **left**");
}

std::string text_of(const Table& table) {
  std::string text = fmt::format("\n## {}\n\n{}. {}.\n\n", table.title, table.source, table.quantity);
  text += fmt::format("Simulated: {}\nCalibrated: {}\n\n", table.setup, table.calibrated);
  text += "| | published | predicted | error | gate | |\n|---|---|---|---|---|---|\n";
  for (const Row& row : table.rows)
    text +=
        fmt::format("| {} | {:.{}f} | {} | {} | {} | {} |\n", row.what, row.published, table.decimals,
                    row.predicted ? fmt::format("{:.{}f}", *row.predicted, table.decimals) : "–", error_of(row), gate_of(row), row.note);
  if (!table.claims.empty()) text += "\n";
  for (const Claim& claim : table.claims) text += fmt::format("- {}: {}\n", claim.what, claim.holds ? "holds" : "**does not hold**");
  if (!table.remarks.empty()) text += fmt::format("\n{}\n", table.remarks);
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
  std::string text = kHead;
  for (const Table& table : tables) text += text_of(table);
  return text;
}

std::vector<std::string> broken(const std::vector<Table>& tables) {
  std::vector<std::string> lines;
  for (const Table& table : tables) {
    for (const Row& row : table.rows)
      if (!row.holds())
        lines.push_back(fmt::format("{}: {}: published {:.4g}, predicted {}, gate {}", table.title, row.what, row.published,
                                    row.predicted ? fmt::format("{:.4g}", *row.predicted) : "nothing", gate_of(row)));
    for (const Claim& claim : table.claims)
      if (!claim.holds) lines.push_back(fmt::format("{}: does not hold: {}", table.title, claim.what));
  }
  return lines;
}

}  // namespace trireme::validation
