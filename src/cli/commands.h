// One function per verb. Each returns the exit code or throws an Error. Exit codes: 0 done, 1 a run failed, 2 the
// user's input was wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "cli/launched_rows.h"
#include "cli/options.h"
#include "forecast/predictions.h"
#include "plan/strategies.h"
#include "update/registry.h"

namespace trireme {

class HubWorld;
class RunAgreement;

struct TrainOptions {
  ExperimentOptions experiment;
  CostSourceOptions prediction;  ///< used by a planner's plan
  std::string plan = usual_strategy();
  bool names_plan = false;           ///< --plan was given
  std::filesystem::path resume;      ///< a run's folder or a checkpoint to resume; empty: begin a new run
  std::filesystem::path start_from;  ///< a run's folder or a checkpoint with whose state a new run begins; empty: none
  std::string json;                  ///< file to which the content of run.json is also written; empty: none
  std::string backend;               ///< one of backend_choices(); empty: threads, or the usual backend of processes
  std::string measure;    ///< for a comparison: "machines", or "step" of the plan, between processes; empty: train
  bool messages = false;  ///< write JSON lines for a parent process instead of a progress bar
  bool details = false;   ///< print all tables
  bool serves = false;    ///< trireme serve: replicas are in other processes
  bool own_data = false;  ///< replicas are in other processes and use their own data
  int processes = 0;      ///< number of processes that are the workers, this process among them; 0: threads
  bool elastic = false;   ///< the launcher reports how to resume, if it does not resume the run itself
  std::filesystem::path phases;  ///< folder of all phases, if this run is one of them; empty: it is not
  std::string phases_plan;       ///< plan of the phases that name none, if this run is one of them

  /// A row of a comparison, which writes no checkpoints.
  bool is_row() const { return messages && !elastic; }
};
/// `make_world`: for the server of replicas that are processes (train/agreement/run_agreement.h); otherwise null.
int run_train(const TrainOptions& options,
              const std::function<std::unique_ptr<HubWorld>(RunAgreement&)>& make_world = {});

struct ServeOptions {
  ExperimentOptions experiment;
  std::string plan = usual_federated_policy();
  int clients = 0;        ///< 0: as many as `spawn`
  int at_least = 0;       ///< number of clients with which training begins; 0: all
  bool own_data = false;  ///< clients train on data of their own
  int spawn = 0;          ///< number of clients that the server starts on this machine
  std::string listen;     ///< "tcp://127.0.0.1:5555"; empty: that address, or any port if all clients are spawned
  std::filesystem::path token_file;  ///< empty: the token is in TRIREME_TOKEN
  std::string json;
  std::filesystem::path resume;  ///< a run's folder or a checkpoint to resume; empty: begin a new run
};
/// Trains under an update policy with replicas that are processes. This process is their server.
int run_serve(const ServeOptions& options);

struct ClientOptions {
  ExperimentOptions experiment;
  std::string server;     ///< "tcp://host:port"
  int client = -1;        ///< its number; -1: any free one
  bool own_data = false;  ///< it trains on all training samples of its own [data]
  std::filesystem::path token_file;
};
/// Trains as one client of a server.
int run_join(const ClientOptions& options);

struct CompareOptions {
  ExperimentOptions experiment;
  CostSourceOptions prediction;
  bool predict = true;   ///< show predicted next to measured values
  int repeats = 1;       ///< runs of each row; rows alternate
  bool details = false;  ///< print all tables, not only the first answer
  std::string json;
  LaunchedRows launched = {};  ///< of trireme launch compare
};
int run_compare(const CompareOptions& options);

struct SimulateOptions {
  ExperimentOptions experiment;  ///< `out`: a run folder is written there; empty: none
  CostSourceOptions prediction;
  std::string epochs;    ///< epochs to the target, in the form of parse_epochs (cost/epochs_file.h); empty: unknown
  bool details = false;  ///< as CompareOptions::details
  std::string json;
};
/// Prints the table of `compare` with predicted values.
int run_simulate(const SimulateOptions& options);

struct VerifyOptions {
  ExperimentOptions experiment;
  std::string plan = usual_strategy();
  /// Empty: fp64, unless --set gives a precision. Others differ by rounding, which training amplifies.
  std::string precision;
  int64_t steps = 3;
};
int run_verify(const VerifyOptions& options);

struct ProfileOptions {
  ExperimentOptions experiment;
  std::filesystem::path out;  ///< empty: the experiment's name in the working folder
  std::string budget = "60 s";
};
/// Writes the profile, or adds missing measurements to it, and prints it.
int run_profile(const ProfileOptions& options);

struct MeasureEpochsOptions {
  ExperimentOptions experiment;
  std::vector<int64_t> batches;
  std::string rate = "linear";  ///< "linear", "sqrt", "fixed"
  int64_t micro_batch = 0;      ///< most samples that a worker computes at once; 0: the experiment's batch
  std::filesystem::path out;    ///< empty: the experiment's name in the working folder
};
/// Trains with each batch that the file does not contain yet, adds it to the file, and prints all of them.
int run_measure_epochs(const MeasureEpochsOptions& options);

struct PlanBestOptions {
  ExperimentOptions experiment;
  CostSourceOptions prediction;
  std::string objective = "time";  ///< "time", "memory" or "cost"
  bool explain = false;            ///< print the runners-up and the deciding term, to standard error
  std::vector<int> micro_batches;  ///< numbers of micro-batches to search; empty: as BestPlanOptions
  std::string gap;  ///< "1%": stop when no plan is better by more than this; empty: search for the optimum
  std::string time_limit = "60 s";  ///< of the search
  bool trials = true;               ///< on this machine, trial steps choose among the fastest predicted plans
};
/// Prints the best plan as JSON, and what is known about it to standard error. Errors (user): no plan fits (the error
/// says what is missing and what would help); no plan was found in time.
int run_plan_best(const PlanBestOptions& options);

struct PlanProjectOptions {
  ExperimentOptions experiment;  ///< `devices`: all numbers of devices
  CostSourceOptions prediction;
  std::string epochs;         ///< a file, a noise scale or a table, see parse_epochs
  int64_t per_worker = 0;     ///< samples per data-parallel worker; 0: the experiment's batch
  int64_t epoch_samples = 0;  ///< 0: those of the training set
  std::string json;  ///< "-": to standard output instead of the plan; otherwise also to this file; may be empty
};
/// Prints, as JSON, the plan that reaches the target first. Writes to standard error, for a fixed batch per worker and
/// for a fixed global batch: the times of data parallelism and of the best hybrid that fit into memory, the number of
/// devices from which the hybrid is faster, and prices if they are known.
int run_plan_project(const PlanProjectOptions& options);

struct PlanShowOptions {
  ExperimentOptions experiment;  ///< the file may be omitted
  CostSourceOptions prediction;  ///< used by a planner's plan
  std::string plan;              ///< a plan, or a model whose layers are listed
  std::string model;             ///< of the zoo, or a TorchScript file; used without an experiment
  std::vector<int64_t> sample;  ///< shape of a sample, without an experiment; empty: usual shapes (of the zoo's models)
  int64_t vocabulary = 0;       ///< > 0: the samples are token ids below this number
  bool program = false;         ///< also draw the schedule
  int worker = -1;              ///< worker whose instructions are listed; -1: none
  int columns = 0;              ///< width of the drawing; 0: the width of the terminal
  std::string json;             ///< "-": the plan as JSON instead of words; otherwise also to this file; may be empty
};
/// Prints a plan in words or as JSON, which can be edited and used with --plan FILE; or a model's layers.
int run_plan_show(const PlanShowOptions& options);

struct PlanGraphOptions {
  std::filesystem::path graph;
  std::string cost = "pipedream";
  std::vector<int> devices;  ///< none or one
  std::string bandwidth, memory, time_limit;
  bool straight = false;
  std::string json;  ///< "-": to standard output; empty: words instead
};
/// Plans a graph file in a published cost model and prints the result.
int run_plan_graph(const PlanGraphOptions& options);

struct ExportOptions {
  /// `experiment` is the source: an experiment's file, a run's folder or a file of weights.
  ExperimentOptions experiment;
  /// "safetensors", "torchscript", "onnx"; empty: by the extension of `out`, otherwise safetensors.
  std::string format;
  std::filesystem::path out;  ///< empty: the model's name in the working folder
  bool raw = false;           ///< the model takes raw values (model/input_form.h), not normalised ones
};
/// Writes a trained, a downloaded or an untrained model in a format for other programs.
int run_export(const ExportOptions& options);

/// Prints a table of a run's checkpoints. `path`: a run's folder or a folder of checkpoints. Errors (user): there are
/// none.
int list_checkpoints(const std::filesystem::path& path, std::ostream& out);

/// Reads every byte of all checkpoints, or of one, and prints a line for each. Returns 1 if any is damaged.
int verify_checkpoints(const std::filesystem::path& path, std::ostream& out);

/// Puts `cause` before the reason in the run.json of a failed run, and writes its report.html again. `json`: a copy of
/// run.json (--json), which gets the same reason; empty: there is none. If the run has written no result, its row is
/// made from its records. Does nothing if the run has not failed, or if the folder cannot be read or written.
void name_cause(const std::filesystem::path& folder, const std::string& cause, const std::filesystem::path& json);

/// Prints the first answer of a run folder (`details`: all tables) and writes its report.html again from run.json and
/// trace.json. Of two folders it prints what differs, and writes one report with both. `out`: the file to write; empty:
/// report.html in the folder, or a new report-of-two.html (or -2, -3, ...) in the working folder.
int run_report(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& out, bool details);

}  // namespace trireme
