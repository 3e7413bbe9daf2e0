#include "plumb/Redistribution/Interpreter.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Planner.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <fstream>
#include <chrono>
using namespace plumb::redistribution;
using Json = nlohmann::ordered_json;
static Layout lay(const Mesh &m, const Json &dims, const Json &partial) {
  Layout l;
  for (auto &d : dims) { DimSharding s; for (auto &a : d) s.axes.push_back(wholeAxis(m, *m.find(a.get<std::string>()))); l.dims.push_back(s);}
  for (auto &a : partial) l.partial.push_back({wholeAxis(m, *m.find(a.get<std::string>())), Reduction::Sum});
  return l;
}
static void rows(const char *file, bool exchange) {
  std::ifstream in(std::string(PLUMB_FIXTURES "/redistribution/") + file);
  std::string line; int worse=0, n=0, better=0, notopt=0, bad=0, bnd=0; double secs=0, ver=0, mx=0; std::string mxid;
  while (std::getline(in, line)) {
    Json r = Json::parse(line); ++n;
    Mesh m; for (auto &[k, v] : r["mesh"].items()) m.axes.push_back({k, v.get<int64_t>()});
    Index shape; for (auto &v : r["shape"]) shape.push_back(v.get<int64_t>());
    PlanOptions o; o.exchange = exchange;
    auto t0 = std::chrono::steady_clock::now();
    auto p = planRedistribution(m, shape, 4, lay(m, r["src"], r["partial"]), lay(m, r["dst"], r["dst_partial"]), o);
    auto t1 = std::chrono::steady_clock::now();
    if (!p) { ADD_FAILURE() << r["id"] << llvm::toString(p.takeError()); if (++bad > 5) return; continue; }
    double t = std::chrono::duration<double>(t1 - t0).count(); secs += t; if (t > mx) { mx = t; mxid = r["id"]; }
    if (auto e = verifyPlan(*p)) { ADD_FAILURE() << r["id"] << llvm::toString(std::move(e)); if (++bad > 5) return; }
    ver += std::chrono::duration<double>(std::chrono::steady_clock::now() - t1).count();
    double f = p->bytes / p->globalBytes();
    notopt += !p->optimal;
    if (p->boundBytes > p->bytes + 1e-9) { ADD_FAILURE() << r["id"] << " bound above"; if (++bad > 5) return; }
    if (exchange && r["partial"].empty() && p->bytes > p->boundBytes + 1e-9) { if (bnd++ < 6) { std::string s; for (auto &st : p->steps) s += toString(m, st) + "; "; std::cout << r["id"] << " " << p->bytes << " bound " << p->boundBytes << s << "\n"; } }
    if (r.contains("best_bytes_fraction")) {
      double b = r["best_bytes_fraction"];
      if (f > b + 1e-9) { if (worse++ < 5) { std::string s; for (auto &st : p->steps) s += toString(m, st) + "; "; std::cout << r["id"] << " " << f << " best " << b << " " << r["best_ops"] << s << "\n"; } }
      if (f < b - 1e-9) ++better;
    }
  }
  std::cout << file << " n " << n << " worse " << worse << " better " << better << " notopt " << notopt << " abovebound " << bnd << " avg us " << secs / n * 1e6 << " max us " << mx * 1e6 << " " << mxid << " verify us " << ver / n * 1e6 << "\n";
}
TEST(Rows, Bytes) { rows("bytes.jsonl", false); }
TEST(Rows, BytesExchange) { rows("bytes.jsonl", true); }
TEST(Rows, Uneven) { rows("uneven.jsonl", false); }
TEST(Rows, UnevenExchange) { rows("uneven.jsonl", true); }
