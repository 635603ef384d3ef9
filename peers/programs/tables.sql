PRAGMA journal_mode = WAL;
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) INSERT INTO t SELECT i, hex(i * 7) FROM n;
SELECT count(*), sum(length(b)) FROM t WHERE b LIKE '%3%';
BEGIN; UPDATE t SET b = b || 'x' WHERE a % 3 = 0; COMMIT;
SELECT count(*), sum(length(b)) FROM t;
