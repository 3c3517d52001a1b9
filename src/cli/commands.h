// One function per verb. Each returns the exit code or throws an Error: 0 done, 1 a run failed, 2 the user's input was
// wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "forecast/predictions.h"
#include "plan/strategies.h"
#include "update/registry.h"

namespace trireme {

class HubWorld;
class RunAgreement;

struct TrainOptions {
  ExperimentOptions experiment;
  CostSourceOptions prediction;  ///< of a planner's plan
  std::string plan = usual_strategy();
  std::filesystem::path resume;  ///< a run's folder or a checkpoint to go on from; empty: begin anew
  std::string json;              ///< where to write run.json's content too; empty: nowhere
  std::string backend;           ///< one of backend_choices(); empty: threads, or what processes usually have
  bool messages = false;         ///< write JSON lines for a parent process instead of a progress bar
  bool serves = false;           ///< trireme serve: replicas are in other processes
  bool own_data = false;         ///< replicas, which are in other processes, bring their data
  int processes = 0;             ///< workers are so many processes, this one of them; 0: threads
  bool elastic = false;          ///< and their launcher says how to go on, if it does not do so itself
};
/// `make_world`: of the server of replicas that are processes (train/agreement/run_agreement.h); else null.
int run_train(const TrainOptions& options,
              const std::function<std::unique_ptr<HubWorld>(RunAgreement&)>& make_world = {});

struct ServeOptions {
  ExperimentOptions experiment;
  std::string plan = usual_federated_policy();
  int clients = 0;                   ///< 0: as many as `spawn`
  int at_least = 0;                  ///< of the clients, to begin with; 0: all
  bool own_data = false;             ///< clients train on data of their own
  int spawn = 0;                     ///< of the clients: processes that the server starts here
  std::string listen;                ///< "tcp://127.0.0.1:5555"; empty: that, or any port where all clients are spawned
  std::filesystem::path token_file;  ///< empty: the token is in TRIREME_TOKEN
  std::string json;
  std::filesystem::path resume;  ///< a run's folder or a checkpoint to go on from; empty: begin anew
};
/// Trains under an update policy with replicas that are processes, whose server this one is.
int run_serve(const ServeOptions& options);

struct ClientOptions {
  ExperimentOptions experiment;
  std::string server;     ///< "tcp://host:port"
  int client = -1;        ///< its number; -1: any
  bool own_data = false;  ///< it trains on all training samples of its own [data]
  std::filesystem::path token_file;
};
/// Trains as one client of a server.
int run_join(const ClientOptions& options);

struct CompareOptions {
  ExperimentOptions experiment;
  CostSourceOptions prediction;
  bool predict = true;  ///< shows predicted beside measured
  std::string json;
};
int run_compare(const CompareOptions& options);

struct SimulateOptions {
  ExperimentOptions experiment;  ///< `out`: a run folder is written there, else none
  CostSourceOptions prediction;
  std::string epochs;  ///< to the target, as parse_epochs (cost/epochs_file.h) reads it; empty: not known
  std::string json;
};
/// The table of `compare`, predicted.
int run_simulate(const SimulateOptions& options);

struct VerifyOptions {
  ExperimentOptions experiment;
  std::string plan = usual_strategy();
  std::string precision = "fp64";  ///< other precisions differ by rounding, which training amplifies
  int64_t steps = 3;
};
int run_verify(const VerifyOptions& options);

struct ProfileOptions {
  ExperimentOptions experiment;
  std::filesystem::path out;  ///< empty: the experiment's name in the working folder
  std::string budget = "60 s";
};
/// Writes the profile, or adds to it what it does not have, and prints it.
int run_profile(const ProfileOptions& options);

struct MeasureEpochsOptions {
  ExperimentOptions experiment;
  std::vector<int64_t> batches;
  std::string rate = "linear";  ///< "linear", "sqrt", "fixed"
  int64_t micro_batch = 0;      ///< most samples that a worker computes at once; 0: the experiment's batch
  std::filesystem::path out;    ///< empty: the experiment's name in the working folder
};
/// Trains with each batch that the file does not have yet, adds it to the file, and prints them all.
int run_measure_epochs(const MeasureEpochsOptions& options);

struct PlanBestOptions {
  ExperimentOptions experiment;
  CostSourceOptions prediction;
  std::string objective = "time";   ///< "time", "memory" or "cost"
  bool explain = false;             ///< print the runners-up and what decided, to the standard error
  std::string gap;                  ///< "1%": what is not better by more is not looked for; empty: the very best
  std::string time_limit = "60 s";  ///< of searching
};
/// Prints the best plan as JSON, and what is proven about it to the standard error. Errors (user): none fits, with what
/// is missing and what would help; none was found in time.
int run_plan_best(const PlanBestOptions& options);

struct PlanProjectOptions {
  ExperimentOptions experiment;  ///< `devices`: all of them
  CostSourceOptions prediction;
  std::string epochs;         ///< a file, a noise scale or a table, see parse_epochs
  int64_t per_worker = 0;     ///< samples of every data-parallel worker; 0: the experiment's batch
  int64_t epoch_samples = 0;  ///< 0: the training set's
  std::string json;           ///< "-": to the standard output instead of the plan; else also to this file; may be empty
};
/// Prints the plan that is quickest to the target as JSON and says, to the standard error, for a fixed batch per worker
/// and for a fixed global batch, the times of data parallelism and of the best hybrid that fit into memory, where the
/// second overtakes the first, and prices where there are any.
int run_plan_project(const PlanProjectOptions& options);

struct PlanShowOptions {
  ExperimentOptions experiment;  ///< the file may be left out
  CostSourceOptions prediction;  ///< of a planner's plan
  std::string plan;              ///< or a model, whose layers are listed
  std::string model;             ///< of the zoo or a TorchScript file, where there is no experiment
  std::vector<int64_t>
      sample;              ///< shape of a sample, where there is no experiment; empty: usual ones (of the zoo's models)
  int64_t vocabulary = 0;  ///< > 0: the samples are token ids below this
  bool program = false;    ///< draw the schedule too
  int worker = -1;         ///< and list what this worker does; -1: none
  int columns = 0;         ///< of the drawing; 0: as wide as the terminal
  std::string json;        ///< "-": the plan as JSON instead of words; else also to this file; may be empty
};
/// Prints a plan in words or as JSON, to be edited and given back with --plan FILE; or a model's layers.
int run_plan_show(const PlanShowOptions& options);

struct PlanGraphOptions {
  std::filesystem::path graph;
  std::string cost = "pipedream";
  std::vector<int> devices;  ///< none or one
  std::string bandwidth, memory, limit;
  bool straight = false;
  std::string json;  ///< "-": to the standard output; empty: words instead
};
/// Plans a graph file in a published cost model and prints what it found.
int run_plan_graph(const PlanGraphOptions& options);

struct ExportOptions {
  ExperimentOptions
      experiment;      ///< `experiment` is what to export: an experiment's file, a run's folder or a file of weights
  std::string format;  ///< "safetensors", "torchscript", "onnx"; empty: by the name of `out`, else safetensors
  std::filesystem::path out;  ///< empty: the model's name in the working folder
};
/// Writes a trained, a downloaded or an untrained model for other programs.
int run_export(const ExportOptions& options);

/// A table of a run's checkpoints. `path`: a run's folder or a folder of checkpoints. Errors (user): there are none.
int list_checkpoints(const std::filesystem::path& path, std::ostream& out);

/// Reads every byte of all checkpoints, or of one; a line each. Returns 1 where anything is damaged.
int verify_checkpoints(const std::filesystem::path& path, std::ostream& out);

/// Prints the table of a run folder and writes its report.html anew from run.json and trace.json.
int run_report(const std::filesystem::path& folder);

}  // namespace trireme
