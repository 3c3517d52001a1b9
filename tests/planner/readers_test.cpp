// Both file formats: what is read, and the errors for wrong files.
#include <nlohmann/json.hpp>

#include "../base/expect_error.h"
#include "planner/graph_files/layer_profile.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {
namespace {

const std::string kProfile =
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, "
    "parameter_size=0.000\n"
    "node2 -- LSTM(8, 8, bias=True) -- forward_compute_time=1.500, backward_compute_time=2.5, "
    "activation_size=[64.0; 8.0; 8.0], parameter_size=512.000\n"
    "node3 -- Linear -- forward_compute_time=1e1, backward_compute_time=20, activation_size=40.0, parameter_size=7 -- "
    "stage_id=1\r\n"
    "\tnode1 -- node2\n"
    "\tnode2 -- node3\n";

TEST(LayerProfileFile, IsRead) {
  const LayerGraph graph = parse_layer_graph(kProfile, "p.txt");
  ASSERT_EQ(graph.layers.size(), 3u);
  EXPECT_EQ(graph.layers[1].name, "node2");
  EXPECT_EQ(graph.layers[1].description, "LSTM(8, 8, bias=True)");
  EXPECT_DOUBLE_EQ(graph.layers[1].forward, 1.5e-3);
  EXPECT_DOUBLE_EQ(graph.layers[1].backward, 2.5e-3);
  EXPECT_EQ(graph.layers[1].activation_bytes, 80);
  EXPECT_EQ(graph.layers[2].parameter_bytes, 7);
  EXPECT_DOUBLE_EQ(graph.layers[2].forward, 10e-3);
  EXPECT_EQ(graph.edges.successors[0], std::vector<int>{1});
  EXPECT_EQ(graph.edges.predecessors[2], std::vector<int>{1});
}

TEST(LayerProfileFile, WrongLinesAreNamed) {
  const std::string node =
      "a -- A -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n";
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_error(Blame::user, parts, [&] { parse_layer_graph(text, "p.txt"); });
  };
  refused("", {"p.txt", "no nodes"});
  refused(node + "nonsense\n", {"p.txt:2", "nonsense", "neither a node"});
  refused("a -- A -- forward_compute_time=1, activation_size=1, parameter_size=1\n",
          {"p.txt:1", "backward_compute_time is missing"});
  const std::string rest = "backward_compute_time=1, activation_size=1, parameter_size=1\n";
  refused("a -- A -- forward_compute_time=x, " + rest, {"p.txt:1", "\"x\"", "not a number"});
  refused("a -- A -- forward_compute_time=-1, " + rest, {"p.txt:1", "\"-1\""});
  refused("a -- A -- forward_compute_time=nan, " + rest, {"p.txt:1", "nan"});
  refused("a -- A -- forward_compute_time=1e300, " + rest, {"p.txt:1", "1e300", "1e+30"});
  const std::string times = "a -- A -- forward_compute_time=1, backward_compute_time=1, ";
  refused(times + "activation_size=[1; 2, parameter_size=1\n", {"p.txt:1", "not closed"});
  refused(times + "activation_size=[], parameter_size=1\n", {"p.txt:1", "activation_size"});
  refused(node + node, {"p.txt:2", "two nodes a"});
  refused(node + "\ta -- b\n", {"p.txt:2", "node \"b\""});
  refused(node + "\ta\n", {"p.txt:2", "an edge"});
  refused(node + "\ta -- a\n", {"p.txt", "a -> a", "cycle"});
  std::string b = node;
  b.front() = 'b';
  refused(node + b + "\ta -- b\n\tb -- a\n", {"p.txt", "cycle", "->"});
  refused(std::string(5000, 'x'), {"p.txt:1", "..."});
  refused(std::string("\x7f"
                      "ELF\0\r\x01",
                      7),
          {"p.txt:1", "?ELF???", "neither a node"});
}

nlohmann::json workload() {
  return nlohmann::json::parse(R"({"maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1,
    "nodes": [{"id": 7, "supportedOnFpga": 1, "cpuLatency": 5, "fpgaLatency": 0.5, "isBackwardNode": false, "colorClass": 3, "size": 10},
              {"id": 9, "supportedOnFpga": false, "cpuLatency": 6, "fpgaLatency": 0.6, "isBackwardNode": 1, "name": "last"}],
    "edges": [{"sourceId": 7, "destId": 9, "cost": 0.25}]})");
}

TEST(PlacementFile, IsRead) {
  const PlacementProblem problem = parse_placement(workload(), "w.json");
  EXPECT_EQ(problem.accelerators, 2);
  EXPECT_EQ(problem.cpus, 1);
  EXPECT_EQ(problem.memory, 1e9);
  ASSERT_EQ(problem.nodes.size(), 2u);
  EXPECT_EQ(problem.nodes[0].id, 7);
  EXPECT_EQ(problem.nodes[0].name, "7");
  EXPECT_EQ(problem.nodes[0].color, 3);
  EXPECT_EQ(problem.nodes[0].send, 0.25);
  EXPECT_FALSE(problem.nodes[1].on_accelerator);
  EXPECT_TRUE(problem.nodes[1].backward);
  EXPECT_FALSE(problem.nodes[1].color.has_value());
  EXPECT_EQ(problem.nodes[1].bytes, 0);
  EXPECT_EQ(problem.edges.successors[0], std::vector<int>{1});
}

TEST(PlacementFile, WrongValuesAreNamedByTheirPath) {
  const auto refused = [](const std::vector<std::string>& parts, auto change) {
    nlohmann::json json = workload();
    change(json);
    expect_error(Blame::user, parts, [&] { parse_placement(json, "w.json"); });
  };
  using Json = nlohmann::json;
  refused({"w.json", "not an object"}, [](Json& j) { j = Json::array(); });
  refused({"w.json", "maxFPGAs", "missing"}, [](Json& j) { j.erase("maxFPGAs"); });
  refused({"w.json", "maxCPUs", "-1"}, [](Json& j) { j["maxCPUs"] = -1; });
  refused({"w.json", "maxSizePerFPGA", "\"big\""}, [](Json& j) { j["maxSizePerFPGA"] = "big"; });
  refused({"w.json", "nodes", "not an array"}, [](Json& j) { j["nodes"] = 3; });
  refused({"w.json", "nodes", "empty"}, [](Json& j) { j["nodes"] = Json::array(); });
  refused({"w.json", "nodes[1]", "not an object"}, [](Json& j) { j["nodes"][1] = 4; });
  refused({"w.json", "nodes[1].cpuLatency", "missing"}, [](Json& j) { j["nodes"][1].erase("cpuLatency"); });
  refused({"w.json", "nodes[0].fpgaLatency", "1e+300"}, [](Json& j) { j["nodes"][0]["fpgaLatency"] = 1e300; });
  refused({"w.json", "nodes[0].fpgaLatency", "-2"}, [](Json& j) { j["nodes"][0]["fpgaLatency"] = -2; });
  refused({"w.json", "nodes[0].supportedOnFpga", "2"}, [](Json& j) { j["nodes"][0]["supportedOnFpga"] = 2; });
  refused({"w.json", "nodes[0].colorClass", "1.5"}, [](Json& j) { j["nodes"][0]["colorClass"] = 1.5; });
  refused({"w.json", "nodes[1].id", "two nodes 7"}, [](Json& j) { j["nodes"][1]["id"] = 7; });
  refused({"w.json", "edges[0].destId", "no node 8"}, [](Json& j) { j["edges"][0]["destId"] = 8; });
  refused({"w.json", "edges[0].cost", "missing"}, [](Json& j) { j["edges"][0].erase("cost"); });
  refused({"w.json", "edges[1].cost", "one cost"}, [](Json& j) {
    j["edges"].push_back({{"sourceId", 7}, {"destId", 9}, {"cost", 1}});
  });
  refused({"w.json", "last -> 7", "backward node"}, [](Json& j) {
    j["edges"].push_back({{"sourceId", 9}, {"destId", 7}, {"cost", 1}});
  });
  refused({"w.json", "cycle"}, [](Json& j) {
    j["nodes"][0]["isBackwardNode"] = 1;
    j["edges"].push_back({{"sourceId", 9}, {"destId", 7}, {"cost", 1}});
  });
}

TEST(TrainingPlacement, MirrorsTheForwardGraph) {
  const PlacementProblem problem = training_placement(parse_layer_graph(kProfile, "p.txt"), 3, 1e6, 10);
  ASSERT_EQ(problem.nodes.size(), 6u);
  EXPECT_EQ(problem.accelerators, 3);
  EXPECT_EQ(problem.cpus, 0);
  EXPECT_EQ(problem.nodes[1].color, problem.nodes[4].color);
  EXPECT_TRUE(problem.nodes[4].backward);
  EXPECT_DOUBLE_EQ(problem.nodes[4].accelerator, 2.5e-3);
  EXPECT_EQ(problem.nodes[1].bytes, 592);
  EXPECT_EQ(problem.nodes[1].send, 8);
  EXPECT_EQ(problem.edges.successors[5], std::vector<int>{4});
}

}  // namespace
}  // namespace trireme
