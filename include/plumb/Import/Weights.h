//===- Weights.h - Parameters, buffers and constants of an archive -*- C++ -*-===//
//
// An archive stores weights as raw records ("storages"), and a config file that says which view of which
// record a fully qualified name denotes. Two names that denote the same view are one tensor: that is the only
// place where a
// `.pt2` says that parameters are tied, since its graph lists each name as an input of its own.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_IMPORT_WEIGHTS_H
#define PLUMB_IMPORT_WEIGHTS_H

#include "plumb/Import/ExportedProgram.h"

#include <cstddef>
#include <functional>

namespace plumb::pt2 {

struct Weight {
  std::string fqn;
  std::string record; ///< Full name of the archive entry.
  uint64_t recordSize = 0;
  bool isParameter = false;
  bool isPickled = false; ///< The record is a pickle, which Plumb does not read.
  TensorMeta meta;        ///< Static; its view lies within the record if that is not empty.

  /// Exports of fake or meta tensors have empty records: shapes, but no values.
  bool hasBytes() const { return recordSize != 0 || meta.elements() == 0; }
};

/// Reads a `*_weights_config.json` or `*_constants_config.json`. `findRecord` fills in the record, and its
/// size for a file name, or returns false. Objects that are no tensors are skipped. Reports the first problem
/// and returns nothing.
std::optional<std::vector<Weight>>
parsePayloadConfig(const json::Document &config,
                   const std::function<bool(const std::string &, Weight &)> &findRecord,
                   Diagnostics &diagnostics);

/// Groups of two or more names that denote the same view of the same record, each in the order of `weights`,
/// ordered by their first names. Names whose record is empty are never aliases: a fake export gives all
/// weights one such record.
std::vector<std::vector<std::string>> aliasGroups(const std::vector<Weight> &weights);

/// Pairs of names whose views share bytes without being the same view, found between neighbours by offset.
std::vector<std::pair<std::string, std::string>> partialOverlaps(const std::vector<Weight> &weights);

/// The elements of a view of `record`, in row-major order without gaps. Nothing if the record does not hold
/// them, or programs do not use their type.
std::optional<std::vector<std::byte>> contiguous(const TensorMeta &meta, const std::string &record);

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_WEIGHTS_H
