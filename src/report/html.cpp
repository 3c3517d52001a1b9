#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/text.h"
#include "report/columns.h"
#include "report/html_parts.h"
#include "report/page_data.h"
#include "report/quantities.h"
#include "report/two_runs.h"

namespace trireme {

// Written by cmake/Embed.cmake from src/report/html/.
namespace assets {
extern const std::string_view report_html, rows_js, bars_js, curves_js, blocks_js, replicas_js, schedule_js,
    timeline_js, report_js;
}  // namespace assets

namespace {

using nlohmann::json;

constexpr size_t kMostLines = 5;  ///< of a list that is shown unfolded

/// What the page shows: one run, or two.
struct Page {
  std::vector<PageRun> runs;
  std::optional<RunChanges> changes = {};  ///< of two runs

  /// The first run under an update policy, which says most about curves; the first run if there is none.
  const ExperimentResult& of_curves() const {
    for (const PageRun& run : runs)
      if (under_policies(run.run.result->rows)) return *run.run.result;
    return *runs.front().run.result;
  }
  bool simulated() const {
    return std::all_of(runs.begin(), runs.end(), [](const PageRun& run) { return !run.run.result->simulated.empty(); });
  }
};

/// True if both of two runs have a curve of the training loss.
bool both_have_curves(const Page& page) {
  const auto has_curve = [](const RunResult& row) { return !row.curve.empty(); };
  return page.changes && std::all_of(page.runs.begin(), page.runs.end(), [&](const PageRun& run) {
           return std::any_of(run.run.result->rows.begin(), run.run.result->rows.end(), has_curve);
         });
}

/// Says which curves of the training loss are equal. Under an update policy replicas have weights of their own between
/// two agreements, so curves depend on the policy and on the number of replicas.
std::string about_curves(const Page& page) {
  const std::vector<RunResult>& rows = page.of_curves().rows;
  const bool all = !rows.empty() && std::all_of(rows.begin(), rows.end(), under_policy);
  const bool two = both_have_curves(page), differ = two && !page.changes->curve_settings.empty();
  std::string text;
  if (differ)
    text = fmt::format("A and B differ in {}, so the curves of one need not agree with those of the other. ",
                       page.changes->curve_settings);
  if (under_policies(rows))
    text +=
        "Under an update policy other than synchronous a curve depends on the policy and on the number of replicas, "
        "which compute with weights of their own between two agreements: such curves differ. ";
  const bool one_each = std::all_of(page.runs.begin(), page.runs.end(),
                                    [](const PageRun& run) { return run.run.result->rows.size() < 2; });
  if (all || (differ && one_each)) return text;
  if (std::any_of(page.runs.begin(), page.runs.end(),
                  [](const PageRun& run) { return has_own_batches(*run.run.result); }))
    text +=
        "The batch is per device, so rows on different numbers of devices have different global batches and therefore "
        "different curves; what follows is true of rows with the same global batch. ";
  text += fmt::format(
      "{} same seed gives the same curve under every {}plan, up to rounding: to 10⁻¹⁰ in double precision, while "
      "float32 and bfloat16 drift apart slowly. Exceptions change what is computed: batch norm over shards, compressed "
      "gradients, schedules with delayed weights. ",
      differ ? "Within a run the" : "The", under_policies(rows) ? "other " : "");
  if (two && !differ)
    text += "Settings that run.json does not record, such as those of the optimizer, change curves too. ";
  return text +
         (under_policies(rows) ? "" : "Where curves coincide, earlier rows appear as wider lines below the others.");
}

/// "A: mnist, runs/mnist-20260131-235959"; empty on a page of one run.
std::string title_of(const PageRun& run) {
  return run.name.empty() ? "" : fmt::format("{}: {}, {}", run.name, run.run.result->experiment, run.run.folder);
}

/// Returns `part` of each run, below its name if there are two. A run without this part gets no heading.
template <class Part>
std::string of_each(const Page& page, const Part& part) {
  std::string out;
  for (const PageRun& run : page.runs) {
    const std::string content = part(*run.run.result);
    if (content.empty()) continue;
    if (!run.name.empty()) out += "<h3>" + html_escaped(title_of(run)) + "</h3>\n";
    out += content + "\n";
  }
  return out;
}

std::string class_table(const ExperimentResult& result) {
  const std::vector<Column> columns = class_columns(result);
  if (columns.empty()) return "";
  return "<details><summary>By class, at the last evaluation</summary>\n" + html_table(columns, "Test set, by class") +
         "</details>";
}

std::string fact(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html_escaped(value));
}

std::string facts(const ExperimentResult& result) {
  return "<dl>" + fact("Model", result.model) + fact("Data", result.data_source) + fact("Precision", result.precision) +
         fact(result.batch > 0 ? "Global batch" : "Batch", batch_text(result)) +
         fact("Seed", fmt::format("{}", result.seed)) + fact("Machine", result.machine) +
         fact("Started", result.started) + fact("Initial values", join(result.initial_values, "; ")) + "</dl>";
}

/// A list; a long one is folded under its number of items.
std::string list_of(const std::vector<std::string>& items, const char* empty, const char* unit) {
  if (items.empty()) return fmt::format("<p>{}</p>", empty);
  std::string out = "<ul>\n";
  for (const std::string& item : items) out += "<li>" + html_escaped(item) + "</li>\n";
  out += "</ul>";
  if (items.size() <= kMostLines) return out;
  return fmt::format("<details class=\"printed\"><summary>{}</summary>\n{}</details>",
                     counted(int64_t(items.size()), unit), out);
}

std::string headline(const std::string& strong, const std::string& rest = "") {
  return fmt::format("<p class=\"headline\"><strong>{}</strong>{}</p>\n", html_escaped(strong), html_escaped(rest));
}

/// The answer first, then how sure it is, then what ran.
std::string verdict_of_run(const ExperimentResult& result) {
  std::string out = "<div class=\"verdict\">\n";
  std::vector<std::string> rest = summary(result), verdict = verdict_sentences(result);
  std::erase_if(rest,
                [&](const std::string& s) { return std::find(verdict.begin(), verdict.end(), s) != verdict.end(); });
  const std::string strong = verdict_headline(result);
  const auto begins_with_it = [&](const std::string& s) { return s.starts_with(strong); };
  const auto first = std::find_if(verdict.begin(), verdict.end(), begins_with_it);
  if (strong.empty()) {
    out += headline("No row has a time that can be compared.");
  } else if (first == verdict.end()) {
    out += headline(strong);
  } else {
    out += headline(strong, first->substr(strong.size()));
    verdict.erase(first);
  }
  return out + paragraphs(verdict) + paragraphs(rest) + "</div>";
}

std::string verdict_part(const Page& page) {
  std::string out;
  if (page.changes) out = headline(join(page.changes->verdict, " "));
  return out + of_each(page, verdict_of_run);
}

std::string changes_part(const Page& page) {
  if (!page.changes) return "";
  const std::vector<std::string>& settings = page.changes->settings;
  return "<section id=\"changes\" aria-labelledby=\"h-changes\"><h2 id=\"h-changes\">From A to B</h2>\n" +
         html_table(page.changes->columns, "Rows of both runs") + "\n<h3>Settings that differ</h3>\n" +
         list_of(settings, "None: the runs have the same model, data, precision, batch, seed and machine.", "setting") +
         "</section>\n";
}

/// Puts the columns by which a user chooses a row first and the plan, whose cells are long, last, because a screen may
/// show only the first columns.
std::vector<Column> by_importance(std::vector<Column> columns) {
  const auto rank = [](const Column& column) {
    for (const char* first :
         {"strategy", "devices", "status", "time per step", "peak memory", "test", "price of an epoch"})
      if (column.title == first) return 0;
    return column.title == "plan" ? 2 : 1;
  };
  std::stable_sort(columns.begin(), columns.end(), [&](const Column& a, const Column& b) { return rank(a) < rank(b); });
  return columns;
}

std::string comparison_tables(const Page& page) {
  int first = 0;
  return of_each(page, [&](const ExperimentResult& result) {
    const int begin = first;
    first += int(result.rows.size());
    return html_table(by_importance(comparison_columns(result)), "Comparison of the strategies", begin);
  });
}

/// Says of resumed runs where their curves are joined.
std::string resumed_part(const Page& page) {
  std::vector<std::string> lines;
  for (const PageRun& run : page.runs)
    for (const EarlierSteps::Join& join : run.run.earlier.joins)
      lines.push_back(fmt::format("{} was resumed after step {} from {}; {}.",
                                  run.name.empty() ? "The run" : "Run " + run.name, join.step, join.from,
                                  join.known ? "its curves begin with the steps of the earlier run"
                                             : "the steps before it are not known, because no metrics.jsonl that can "
                                               "be read is beside the checkpoint"));
  return paragraphs(lines);
}

std::string title_of(const Page& page) {
  std::vector<std::string> titles;
  for (const PageRun& run : page.runs) titles.push_back(html_escaped(run.run.result->experiment));
  return join(titles, " and ");
}

std::string table_part(const Page& page, std::string_view name) {
  return of_each(page, [&](const ExperimentResult& result) -> std::string {
    if (name == "memory-table")
      return html_table(memory_columns(result), "Memory of each device at its peak, by category");
    if (name == "block-table") return html_table(block_columns(result), "Strategy of each block");
    if (name == "class-table") return class_table(result);
    if (name == "facts") return facts(result);
    if (name == "failures")
      return list_of(failures(result),
                     result.simulated.empty() ? "All runs ended normally." : "All rows could be simulated.", "reason");
    return list_of(footnotes(result), "No warnings.", "warning");  // "warnings"
  });
}

std::string part(const Page& page, std::string_view name) {
  const bool simulated = page.simulated();
  if (name == "verdict") return verdict_part(page);
  if (name == "changes") return changes_part(page);
  if (name == "changes-link") return page.changes ? "<a href=\"#changes\">From A to B</a>" : "";
  if (name == "table") return comparison_tables(page);
  if (name == "not-trained") return simulated ? " hidden" : "";
  if (name == "bars")
    return simulated ? "Bars are simulated steps."
                     : "Bars are medians; the thin bars reach from the 10th to the 90th percentile.";
  if (name == "step-is") {
    std::vector<std::string> words;
    for (const PageRun& run : page.runs)
      for (const std::string& word : times_are(*run.run.result))
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    return join(words, " or ");
  }
  if (name == "resumed") return resumed_part(page);
  if (name == "curves") return about_curves(page);
  if (name == "problems")
    return simulated ? "Rows that could not be simulated, and warnings"
                     : "Runs that did not end normally, and warnings";
  return table_part(page, name);
}

std::string filled(const Page& page) {
  return html_page(
      {.title = title_of(page),
       .first = "verdict",
       .first_words = "verdict",
       .body = filled_template(assets::report_html, [&](std::string_view name) { return part(page, name); }),
       .data = page_data(page.runs),
       .scripts = {assets::rows_js, assets::timeline_js, assets::schedule_js, assets::blocks_js, assets::replicas_js,
                   assets::bars_js, assets::curves_js, assets::report_js}});
}

}  // namespace

std::string html_report(const ReportedRun& run) { return filled({{{run}}}); }

std::string html_report(const ExperimentResult& result) { return html_report(ReportedRun{&result}); }

std::string html_report(const ReportedRun& a, const ReportedRun& b) {
  return filled({{{a, kRunNames[0]}, {b, kRunNames[1]}}, changes_between(*a.result, *b.result)});
}

}  // namespace trireme
