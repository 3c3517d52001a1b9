#include "study/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/text.h"
#include "report/html_parts.h"

namespace trireme {

// Written by cmake/Embed.cmake from src/study/html/.
namespace assets {
extern const std::string_view study_html, study_js;
}  // namespace assets

namespace {

using nlohmann::json;

/// The rows that a part shows in one table or chart: those of one run, or of all its runs together.
struct Group {
  size_t number;                        ///< among the runs; 0: all together
  std::string name, title;              ///< of the run; empty: all together
  const StudyRows* run_rows = nullptr;  ///< all rows of the run; nullptr: all together
  std::vector<ShownRow> shown;
};

/// The groups of a part whose runs have rows.
std::vector<Group> groups_of(const StudyResult& result, const StudyPart& part) {
  std::vector<Group> groups;
  for (size_t k = 0; k < result.study->runs.size(); ++k) {
    const StudyRun& run = result.study->runs[k];
    const StudyRows& rows = result.runs[k].rows;
    if (!shows_run(part, run) || rows.result.rows.empty()) continue;
    const std::vector<ShownRow> shown = shown_rows(part, run, rows);
    if (!part.together) {
      groups.push_back({k, run.name, run.title, &rows, shown});
      continue;
    }
    if (groups.empty()) groups.push_back({.number = 0, .name = "", .title = "", .run_rows = nullptr, .shown = {}});
    groups.front().shown.insert(groups.front().shown.end(), shown.begin(), shown.end());
  }
  return groups;
}

/// What a screen reader says of a group's table or chart.
std::string label_of(const StudyPart& part, const Group& group) {
  return group.title.empty() ? part.title : fmt::format("{}: {}", part.title, group.title);
}

std::string chart_box(size_t part, const Group& group, size_t chart) {
  return fmt::format("chart-{}-{}-{}", part, group.number, chart);
}

std::string charts_of(const StudyPart& part, size_t number, const Group& group) {
  std::string out;
  for (size_t c = 0; c < part.charts.size(); ++c)
    out += fmt::format("<div><h4 id=\"{0}-title\"></h4><div class=\"chart tall\" id=\"{0}\"></div></div>\n",
                       chart_box(number, group, c));
  const bool any = !part.charts.empty() && !group.shown.empty();
  return any ? "<div class=\"pair\">" + out + "</div>\n" : "";
}

std::string part_section(const StudyResult& result, size_t number) {
  const StudyPart& part = result.study->parts[number];
  std::string out = fmt::format("<section id=\"part-{0}\" aria-labelledby=\"h-{0}\"><h2 id=\"h-{0}\">{1}</h2>\n{2}",
                                number, html_escaped(part.title), paragraphs(part.text));
  for (const Group& group : groups_of(result, part)) {
    const std::vector<Column> columns = part_table(part, group.shown);
    const std::vector<Column> blocks = part_blocks(part, group.shown), sum = part_sum(part, group.shown);
    if (columns.empty() && blocks.empty() && sum.empty() && part.charts.empty() && !part.advice) continue;
    if (!group.title.empty()) out += fmt::format("<h3>{}</h3>\n", html_escaped(group.title));
    if (part.advice) out += "<div class=\"verdict\">" + paragraphs(advice_of(*group.run_rows)) + "</div>\n";
    out += charts_of(part, number, group);
    if (!columns.empty()) out += html_table(columns, label_of(part, group)) + "\n";
    if (!sum.empty()) out += html_table(sum, fmt::format("{}: {} by run", label_of(part, group), part.sum)) + "\n";
    if (!blocks.empty()) out += html_table(blocks, label_of(part, group) + ": blocks") + "\n";
  }
  return out + "</section>\n";
}

std::string run_facts(const StudyRunResult& run) {
  const ExperimentResult& result = run.rows.result;
  std::string seeds = fmt::format("{} {}", run.rows.more_seeds.empty() ? "seed" : "seeds", result.seed);
  for (const ExperimentResult& of_seed : run.rows.more_seeds) seeds += fmt::format(", {}", of_seed.seed);
  const std::string batch = result.batch > 0          ? fmt::format("global batch {}", result.batch)
                            : result.batch_per_device ? fmt::format("batch {} per device", *result.batch_per_device)
                                                      : "";
  std::vector<std::string> facts{result.model, result.data_source, batch, result.precision, seeds, result.machine};
  std::erase(facts, "");
  return join(facts, "; ");
}

std::string why_empty(const StudyRunResult& run) {
  return run.problem.empty() ? "not trained yet" : "could not be had: " + run.problem;
}

/// The section of the runs: their setup, and the reasons of runs without rows.
std::string runs_section(const StudyResult& result) {
  std::string out;
  for (size_t k = 0; k < result.runs.size(); ++k) {
    const StudyRunResult& run = result.runs[k];
    const std::string title = html_escaped(result.study->runs[k].title);
    const std::string link = run.folder.empty() || run.rows.result.rows.empty()
                                 ? title
                                 : fmt::format("<a href=\"{}/report.html\">{}</a>", html_escaped(run.folder), title);
    out += fmt::format("<li>{}: {}</li>\n", link,
                       html_escaped(run.rows.result.rows.empty() ? why_empty(run) : run_facts(run)));
  }
  return "<ul>\n" + out + "</ul>\n";
}

std::vector<std::string> about(const StudyResult& result) {
  std::vector<std::string> texts = result.study->about;
  if (!result.study->source.empty()) texts.push_back("Published by: " + result.study->source + ".");
  ExperimentResult all;
  for (const StudyRunResult& run : result.runs)
    for (const RunResult& row : run.rows.result.rows) all.rows.emplace_back().strategy = row.strategy;
  for (const std::string& note : strategy_notes(all)) texts.push_back(note + ".");
  if (result.size == StudySize::quick)
    texts.emplace_back("This is the quick form (--quick): runs are shortened, so results at their ends are not final.");
  return texts;
}

json charts_json(const StudyResult& result) {
  json charts = json::array();
  for (size_t p = 0; p < result.study->parts.size(); ++p) {
    const StudyPart& part = result.study->parts[p];
    for (const Group& group : groups_of(result, part)) {
      for (size_t c = 0; c < part.charts.size() && !group.shown.empty(); ++c) {
        json chart = chart_json(part, part.charts[c], group.shown);
        chart["box"] = chart_box(p, group, c);
        chart["run"] = group.title.empty() ? part.title : group.title;
        charts.push_back(std::move(chart));
      }
    }
  }
  return charts;
}

/// What the scripts read. Colours and dashes of lines come from `rows`, as in a run's report.
json page_json(const StudyResult& result) {
  json charts = charts_json(result), rows = json::array();
  std::set<std::pair<std::string, int>> seen;
  for (const json& chart : charts)
    for (const json& set : chart["sets"])
      if (const auto key = std::pair(set["variant"].get<std::string>(), set["devices"].get<int>());
          seen.insert(key).second)
        rows.push_back({{"variant", key.first}, {"devices", key.second}});
  return {{"rows", rows}, {"runs", json::array()}, {"charts", charts}};
}

std::string jump_list(const Study& study) {
  std::string out;
  for (size_t p = 0; p < study.parts.size(); ++p)
    out += fmt::format("<a href=\"#part-{}\">{}</a>", p, html_escaped(study.parts[p].title));
  return out + "<a href=\"#runs\">Runs</a>";
}

std::string sections(const StudyResult& result) {
  std::string out;
  for (size_t p = 0; p < result.study->parts.size(); ++p) out += part_section(result, p);
  return out;
}

json table_json(const std::vector<Column>& columns) {
  json out = json::array();
  for (const Column& column : columns)
    out.push_back({{"title", column.title}, {"unit", column.unit}, {"cells", column.cells}});
  return out;
}

}  // namespace

std::string study_page(const StudyResult& result) {
  return html_page({.title = html_escaped(result.study->title),
                    .first = "about",
                    .first_words = "study",
                    .body = filled_template(assets::study_html,
                                            [&](std::string_view name) -> std::string {
                                              if (name == "jump") return jump_list(*result.study);
                                              if (name == "about") return paragraphs(about(result));
                                              if (name == "parts") return sections(result);
                                              return runs_section(result);  // "runs"
                                            }),
                    .data = page_json(result),
                    .scripts = {assets::study_js}});
}

json study_json(const StudyResult& result) {
  json parts = json::array(), runs = json::array();
  for (const StudyPart& part : result.study->parts) {
    json shown = json::array();
    for (const Group& group : groups_of(result, part)) {
      json charts = json::array();
      if (!group.shown.empty())
        for (const StudyChart& chart : part.charts) charts.push_back(chart_json(part, chart, group.shown));
      shown.push_back({{"run", group.name},
                       {"table", table_json(part_table(part, group.shown))},
                       {"sum", table_json(part_sum(part, group.shown))},
                       {"blocks", table_json(part_blocks(part, group.shown))},
                       {"charts", std::move(charts)},
                       {"advice", part.advice ? json(advice_of(*group.run_rows)) : json::array()}});
    }
    parts.push_back({{"title", part.title}, {"runs", std::move(shown)}});
  }
  for (size_t k = 0; k < result.runs.size(); ++k)
    runs.push_back({{"name", result.study->runs[k].name},
                    {"problem", result.runs[k].problem},
                    {"rows", result.runs[k].rows.result.rows.size()}});
  return {{"study", result.study->name}, {"size", name_of(result.size)}, {"runs", runs}, {"parts", parts}};
}

std::vector<std::string> study_answer(const StudyResult& result) {
  std::vector<std::string> lines;
  for (const StudyPart& part : result.study->parts)
    if (part.advice)
      for (const Group& group : groups_of(result, part)) {
        lines.push_back(group.title + ":");
        for (const std::string& sentence : advice_of(*group.run_rows)) lines.push_back("  " + sentence);
      }
  for (size_t k = 0; k < result.runs.size(); ++k)
    if (result.runs[k].rows.result.rows.empty())
      lines.push_back(fmt::format("{}: {}", result.study->runs[k].title, why_empty(result.runs[k])));
  return lines;
}

}  // namespace trireme
