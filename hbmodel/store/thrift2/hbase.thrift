/*
 * The part of HBase's second Thrift service (`hbase thrift2 start`) that hbmodel speaks.
 *
 * Names of calls, field numbers and types are the service's own. Fields that are never sent, and fields of replies that nobody
 * looks at, are left out: Thrift passes over a field that one side does not know.
 */

// --- rows to read ----------------------------------------------------------------------------------------------------

/* A column, or a family if there is no qualifier; in a delete the time up to which (or, by type, at which) cells go. */
struct TColumn {
  1: required binary family
  2: optional binary qualifier
  3: optional i64 timestamp
}

/* A cell; in a put without a time of its own. */
struct TColumnValue {
  1: required binary family
  2: required binary qualifier
  3: required binary value
  4: optional i64 timestamp
}

/* A row as read. An absent one has neither key nor cells. */
struct TResult {
  1: optional binary row
  2: required list<TColumnValue> columnValues
}

/* Versions from the first time on and before the second. */
struct TTimeRange {
  1: required i64 minStamp
  2: required i64 maxStamp
}

struct TGet {
  1: required binary row
  2: optional list<TColumn> columns
  4: optional TTimeRange timeRange
  5: optional i32 maxVersions
  6: optional binary filterString
}

enum TReadType {
  DEFAULT = 1
  STREAM = 2
  PREAD = 3
}

/* The start row is inclusive, the stop row exclusive, both in the direction of the scan. */
struct TScan {
  1: optional binary startRow
  2: optional binary stopRow
  3: optional list<TColumn> columns
  4: optional i32 caching
  6: optional TTimeRange timeRange
  7: optional binary filterString
  8: optional i32 batchSize
  11: optional bool reversed
  14: optional TReadType readType
  15: optional i32 limit
}

// --- changes of rows -------------------------------------------------------------------------------------------------

struct TPut {
  1: required binary row
  2: required list<TColumnValue> columnValues
  3: optional i64 timestamp
  5: optional map<binary, binary> attributes
}

/* What each column of a delete names: one version, all versions up to a time, a family, one version of a family. */
enum TDeleteType {
  DELETE_COLUMN = 0
  DELETE_COLUMNS = 1
  DELETE_FAMILY = 2
  DELETE_FAMILY_VERSION = 3
}

/* Without columns the whole row goes, up to the timestamp; with columns their own times count and this one is ignored. */
struct TDelete {
  1: required binary row
  2: optional list<TColumn> columns
  3: optional i64 timestamp
  4: optional TDeleteType deleteType
}

union TMutation {
  1: TPut put
  2: TDelete deleteSingle
}

struct TRowMutations {
  1: required binary row
  2: required list<TMutation> mutations
}

struct TColumnIncrement {
  1: required binary family
  2: required binary qualifier
  3: optional i64 amount
}

struct TIncrement {
  1: required binary row
  2: required list<TColumnIncrement> columns
}

enum TCompareOp {
  LESS = 0
  LESS_OR_EQUAL = 1
  EQUAL = 2
  NOT_EQUAL = 3
  GREATER_OR_EQUAL = 4
  GREATER = 5
  NO_OP = 6
}

// --- tables ----------------------------------------------------------------------------------------------------------

struct TTableName {
  1: optional binary ns
  2: required binary qualifier
}

/* Attributes are the settings that HBase itself knows (VERSIONS, TTL, ...), as text; configuration is everything else. */
struct TColumnFamilyDescriptor {
  1: required binary name
  2: optional map<binary, binary> attributes
  3: optional map<string, string> configuration
}

struct TTableDescriptor {
  1: required TTableName tableName
  2: optional list<TColumnFamilyDescriptor> columns
}

struct TNamespaceDescriptor {
  1: required string name
}

/* The region's number, field 1, is always 0 in answers. */
struct THRegionInfo {
  2: required binary tableName
  3: optional binary startKey
  4: optional binary endKey
  7: optional i32 replicaId
}

struct THRegionLocation {
  2: required THRegionInfo regionInfo
}

// --- the service -----------------------------------------------------------------------------------------------------

/* HBase's client failed; it may be told whether it would make sense to try again. */
exception TIOError {
  1: optional string message
  2: optional bool canRetry
}

/* The gateway does not know what it is asked about, such as a scanner. */
exception TIllegalArgument {
  1: optional string message
}

service THBaseService {
  list<TResult> getMultiple(1: required binary table, 2: required list<TGet> tgets) throws (1: TIOError io)

  list<TResult> getScannerResults(1: required binary table, 2: required TScan tscan, 3: i32 numRows) throws (1: TIOError io)

  i32 openScanner(1: required binary table, 2: required TScan tscan) throws (1: TIOError io)

  list<TResult> getScannerRows(1: required i32 scannerId, 2: i32 numRows) throws (1: TIOError io, 2: TIllegalArgument ia)

  void closeScanner(1: required i32 scannerId) throws (1: TIOError io, 2: TIllegalArgument ia)

  void put(1: required binary table, 2: required TPut tput) throws (1: TIOError io)

  void putMultiple(1: required binary table, 2: required list<TPut> tputs) throws (1: TIOError io)

  void deleteSingle(1: required binary table, 2: required TDelete tdelete) throws (1: TIOError io)

  list<TDelete> deleteMultiple(1: required binary table, 2: required list<TDelete> tdeletes) throws (1: TIOError io)

  void mutateRow(1: required binary table, 2: required TRowMutations trowMutations) throws (1: TIOError io)

  bool checkAndMutate(
    1: required binary table
    2: required binary row
    3: required binary family
    4: required binary qualifier
    5: required TCompareOp compareOp
    6: binary value
    7: required TRowMutations rowMutations
  ) throws (1: TIOError io)

  TResult increment(1: required binary table, 2: required TIncrement tincrement) throws (1: TIOError io)

  list<TTableName> getTableNamesByPattern(1: optional string regex, 2: required bool includeSysTables) throws (1: TIOError io)

  TTableDescriptor getTableDescriptor(1: required TTableName table) throws (1: TIOError io)

  list<THRegionLocation> getAllRegionLocations(1: required binary table) throws (1: TIOError io)

  void createTable(1: required TTableDescriptor desc, 2: optional list<binary> splitKeys) throws (1: TIOError io)

  void disableTable(1: required TTableName tableName) throws (1: TIOError io)

  void deleteTable(1: required TTableName tableName) throws (1: TIOError io)

  void addColumnFamily(1: required TTableName tableName, 2: required TColumnFamilyDescriptor column) throws (1: TIOError io)

  void modifyColumnFamily(1: required TTableName tableName, 2: required TColumnFamilyDescriptor column) throws (1: TIOError io)

  void createNamespace(1: required TNamespaceDescriptor namespaceDesc) throws (1: TIOError io)

  void deleteNamespace(1: required string name) throws (1: TIOError io)

  list<TNamespaceDescriptor> listNamespaceDescriptors() throws (1: TIOError io)

  bool isTableEnabled(1: required TTableName tableName) throws (1: TIOError io)
}
