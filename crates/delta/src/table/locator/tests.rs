use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("alluvium-locator-{}", Uuid::new_v4()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn locator(&self) -> Arc<TableLocator> {
        let root = self.0.join("w");
        TableLocator::try_new(root.to_str(), HashMap::new(), "c", "public").unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn names_are_directories_below_the_root() {
    let scratch = Scratch::new();
    let locator = scratch.locator();
    let place = |name: TableReference| location::local_path(&locator.locate(&name).unwrap()).unwrap();
    assert_eq!(place(TableReference::bare("a b")), scratch.0.join("w/a b"));
    assert_eq!(place(TableReference::partial("public", "50%")), scratch.0.join("w/50%"));
    assert_eq!(place(TableReference::full("c", "s", "ö")), scratch.0.join("w/s/ö"));
    assert_eq!(
        locator
            .locate(&TableReference::full("other", "s", "t"))
            .unwrap_err()
            .code(),
        "42P01"
    );
    assert_eq!(
        locator.locate(&TableReference::partial("..", "t")).unwrap_err().code(),
        "42602"
    );
}

#[test]
#[cfg(unix)]
fn links_are_followed_only_inside() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let locator = scratch.locator();
    let (root, outside) = (scratch.0.join("w"), scratch.0.join("outside"));
    for path in [
        root.join("real/_delta_log"),
        outside.join("_delta_log"),
        root.join("half"),
    ] {
        std::fs::create_dir_all(path).unwrap();
    }
    symlink(root.join("real"), root.join("alias")).unwrap();
    symlink(&outside, root.join("out")).unwrap();
    symlink(&scratch.0, root.join("schema")).unwrap();
    symlink(outside.join("_delta_log"), root.join("half/_delta_log")).unwrap();
    symlink(root.join("missing"), root.join("dangling")).unwrap();
    locator.locate(&TableReference::bare("alias")).unwrap();
    let refused = [
        TableReference::bare("out"),
        TableReference::bare("half"),
        TableReference::bare("dangling"),
        TableReference::partial("schema", "outside"),
        TableReference::partial("real", "nested"),
    ];
    for name in refused {
        assert_eq!(locator.locate(&name).unwrap_err().code(), "42602", "{name}");
        assert!(!locator.knows(&name), "{name}");
    }
    let names = locator.tables();
    assert_eq!(names["public"].iter().collect::<Vec<_>>(), ["alias", "real"]);
    assert_eq!(names.len(), 1);
}

#[test]
fn one_handle_per_location_and_attachments_come_first() {
    let scratch = Scratch::new();
    let locator = scratch.locator();
    let name = TableReference::bare("t");
    let managed = locator.handle(&name).unwrap();
    assert!(Arc::ptr_eq(&managed, &locator.handle_at(managed.location())));
    let elsewhere = locator.parse_location(scratch.0.join("x/t").to_str().unwrap()).unwrap();
    locator.attach(&name, Arc::clone(&elsewhere)).unwrap();
    assert!(Arc::ptr_eq(&locator.handle(&name).unwrap(), &elsewhere));
    assert_eq!(&locator.place(&name).unwrap(), managed.location());
    locator.detach(&name).unwrap();
    assert!(Arc::ptr_eq(&locator.handle(&name).unwrap(), &managed));
}

#[tokio::test]
async fn delete_removes_the_directory_and_nothing_else() {
    let scratch = Scratch::new();
    let locator = scratch.locator();
    for table in ["t/_delta_log", "u/_delta_log"] {
        std::fs::create_dir_all(scratch.0.join("w").join(table)).unwrap();
    }
    locator.delete(&TableReference::bare("t")).await.unwrap();
    let left: Vec<_> = std::fs::read_dir(scratch.0.join("w"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["u"]);
}

#[test]
fn debug_shows_no_credentials() {
    let options = HashMap::from([("aws_secret_access_key".to_owned(), "SECRETKEY".to_owned())]);
    let scratch = Scratch::new();
    let locator = TableLocator::try_new(scratch.0.to_str(), options, "c", "public").unwrap();
    let handle = locator.handle(&TableReference::bare("t")).unwrap();
    assert_eq!(handle.options()["aws_secret_access_key"], "SECRETKEY");
    assert!(!format!("{locator:?} {handle:?}").contains("SECRETKEY"));
}
