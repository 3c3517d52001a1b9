// Rows of published and simulated numbers, and the page that shows them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme::validation {

struct Row {
  std::string what;
  double published = 0;
  std::optional<double> predicted;  ///< none: `note` says why
  std::optional<double> gate;       ///< greatest relative error; none: the row is shown only
  bool is_calibrated = false;       ///< the number of this row was given to the simulator
  std::string note;

  double error() const { return *predicted / published - 1; }
  bool holds() const { return !gate || (predicted && error() <= *gate && error() >= -*gate); }
};

/// What must be true of several rows together: a sign, an order.
struct Claim {
  std::string what;
  bool holds = true;
};

struct Table {
  std::string title;
  std::string source;      ///< the publication
  std::string quantity;    ///< what the numbers are
  std::string setup;       ///< how it was simulated: model, plan, machine, what had to be supposed
  std::string calibrated;  ///< which number on which row; or that there is none
  int decimals = 2;
  std::vector<Row> rows;
  std::vector<Claim> claims;
  std::string remarks;  ///< why rows differ, where they do

  bool holds() const;
  void claim(std::string what, bool holds);
};

/// The whole page in Markdown.
std::string page(const std::vector<Table>& tables);

/// What left its gate, one line each; empty: nothing.
std::vector<std::string> broken(const std::vector<Table>& tables);

}  // namespace trireme::validation
