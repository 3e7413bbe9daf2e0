//===- Pt2Archive.h - torch.export archives ---------------------*- C++ -*-===//

#ifndef PLUMB_IMPORT_PT2ARCHIVE_H
#define PLUMB_IMPORT_PT2ARCHIVE_H

#include "plumb/Import/Weights.h"

#include <set>

namespace plumb::pt2 {

class ZipFile;

/// An open `.pt2` file as torch.export.save of PyTorch 2.9 and newer writes it: a ZIP archive with the
/// program as JSON and each storage as a raw record. The program and the list of weights are read at once,
/// their bytes on demand. Refused with a diagnostic: older generations (whose weights are pickles), other
/// files PyTorch writes, truncated or inconsistent archives.
class Pt2Archive {
public:
  static std::unique_ptr<Pt2Archive> open(const std::string &path, Diagnostics &diagnostics);

  /// The same for an archive in memory; `name` stands for it in diagnostics.
  static std::unique_ptr<Pt2Archive> read(const std::string &name, std::string bytes,
                                          Diagnostics &diagnostics);

  /// Whether a file that begins so may be an archive (a ZIP file), and not JSON or MLIR text.
  static bool looksLikeArchive(std::string_view head);

  ~Pt2Archive();

  const std::string &name() const { return name_; }
  const ExportedProgram &program() const { return program_; }

  /// All parameters, buffers and constants, in the archive's order.
  const std::vector<Weight> &weights() const { return weights_; }

  /// Null if there is no weight of that name.
  const Weight *weight(const std::string &fqn) const;

  /// Names of one tensor; the first of each group is its canonical name, as it comes first in the program's
  /// inputs.
  const std::vector<std::vector<std::string>> &aliases() const { return aliases_; }

  /// Canonical names of weights that the model saves under none of their names: buffers that are not
  /// persistent, and constants.
  const std::set<std::string> &nonPersistent() const { return nonPersistent_; }

  /// The values of a weight, row-major, without gaps, little-endian. Reports a weight that is unknown, has no
  /// bytes, or whose record cannot be read. Not safe to call from several threads at once.
  std::optional<std::vector<std::byte>> bytes(const std::string &fqn, Diagnostics &diagnostics) const;

private:
  Pt2Archive(std::string name, std::unique_ptr<ZipFile> zip);
  static std::unique_ptr<Pt2Archive> load(std::string name, std::unique_ptr<ZipFile> zip,
                                          Diagnostics &diagnostics);

  bool checkFormat(Diagnostics &diagnostics);
  std::optional<json::Document> document(const std::string &entryName, Diagnostics &diagnostics) const;
  bool loadProgram(Diagnostics &diagnostics);
  bool loadWeights(Diagnostics &diagnostics);
  bool loadConfig(const std::string &folder, const std::vector<std::string> &names, Diagnostics &diagnostics);
  bool checkAgainstProgram(Diagnostics &diagnostics) const;
  void orderWeights();
  void findNonPersistent();

  std::string name_;
  std::unique_ptr<ZipFile> zip_;
  std::string root_;  ///< Folder of all entries, with its slash; may be empty.
  std::string model_; ///< Name of the program in the archive.
  ExportedProgram program_;
  std::vector<Weight> weights_;
  std::unordered_map<std::string, size_t> weightIndex_;
  std::vector<std::vector<std::string>> aliases_;
  std::set<std::string> nonPersistent_;
};

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_PT2ARCHIVE_H
